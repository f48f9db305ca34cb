"""Payloads of the streams that cross module borders."""

from amaranth.hdl import Mux, Value
from amaranth.lib import data

from etalstm_hw import contract
from etalstm_hw.contract import FloatFormat, Opcode

LANE_OFFSET_BITS = contract.LANE_ADDRESS_BITS + 1
"""Bits of an offset into a lane memory: one more than an address, see :func:`lane_offset`."""

TILES_BITS = contract.FIELDS[Opcode.MAC]["tiles"]
"""Bits of the number of tiles that CAST and MAC must agree on."""

CHANNEL_ENGINES = ("load", "mac", "vector", "store")
"""The engines of a channel, which waits are about."""


def instruction_layout(opcode: Opcode) -> data.StructLayout:
    """Layout of an instruction, as declared in :data:`contract.FIELDS`, without the bits above its last field."""
    return data.StructLayout({name: width for name, (_, width) in contract.layout(opcode).items()})


class Scalar(data.StructLayout):
    """What the broadcaster sends to every channel for each scalar.

    Members
    -------
    value : the scalar
    outer, inner : offsets into weights and partial sums, already multiplied by the number of vectors that each scalar
        has there; see :func:`lane_offset`
    tiles : the number of tiles, which is that of the partial sums
    narrow : the weights are bfloat16, two tiles in a vector
    begins : its sums start here (with the start that the MAC instruction names)
    empty : no term: the sums keep their value, or with ``begins`` are set to their start; ``value`` and ``outer`` mean
        nothing
    null : no scalar: the message only carries ``last``
    last : the paired MAC instruction ends with this message
    """

    def __init__(self, format: FloatFormat):
        super().__init__(
            {
                "value": format.width,
                "outer": LANE_OFFSET_BITS,
                "inner": LANE_OFFSET_BITS,
                "tiles": TILES_BITS,
                "narrow": 1,
                "begins": 1,
                "empty": 1,
                "null": 1,
                "last": 1,
            }
        )


def lane_offset(total: Value) -> Value:
    """Saturate an offset at the first one that no lane memory has.

    No memory has more than 2^LANE_ADDRESS_BITS vectors. So whatever is added to a saturated offset stays outside, and
    is refused with BAD_ADDRESS.

    Parameters
    ----------
    total : Value
        Unsigned, of any width.

    Returns
    -------
    Value, LANE_OFFSET_BITS wide
    """
    beyond = 1 << contract.LANE_ADDRESS_BITS
    return Mux(total[contract.LANE_ADDRESS_BITS :].any(), beyond, total[: contract.LANE_ADDRESS_BITS])


class Wait(data.StructLayout):
    """What an instruction waits for of one engine.

    Members
    -------
    target : how many instructions the engine must have completed, modulo 2^TARGET_BITS
    wanted : there is such a wait
    """

    def __init__(self):
        super().__init__({"target": contract.TARGET_BITS, "wanted": 1})


def unmet(wait, completed):
    """Tell whether an engine has completed fewer instructions than a :class:`Wait` asks for.

    Both counts are known modulo 2^TARGET_BITS. Their difference is read as a signed number, so a target may lie up to
    2^(TARGET_BITS - 1) instructions ahead of or behind what is completed.
    """
    return wait.wanted & (completed[: contract.TARGET_BITS] - wait.target)[contract.TARGET_BITS - 1]


class Waits(data.StructLayout):
    """A :class:`Wait` for each engine of a channel; with ``everyone``, that for STORE is about every channel's."""

    def __init__(self):
        super().__init__({engine: Wait() for engine in CHANNEL_ENGINES} | {"everyone": 1})


class Dispatched(data.StructLayout):
    """An instruction between the sequencer and its engine's queue.

    Members
    -------
    word : the instruction as in memory, its address final; of its header only the opcode, the other fields are 0
    waits : what must be completed before it begins
    """

    def __init__(self):
        super().__init__({"word": contract.INSTRUCTION_BITS, "waits": Waits()})


class Completed(data.StructLayout):
    """How many instructions each engine of a channel has completed since the program started."""

    def __init__(self):
        super().__init__({engine: contract.COMPLETED_BITS for engine in CHANNEL_ENGINES})


class Windows(data.StructLayout):
    """Where the channels' windows lie: byte address of the first; bytes from one to the next; bytes of each."""

    def __init__(self, address_bits: int):
        super().__init__({"base": address_bits, "stride": address_bits, "size": address_bits})


class Group(data.StructLayout):
    """The group that a channel or a broadcaster belongs to; constant while a program runs.

    Members
    -------
    position : number of the channel in its group; 0 of a broadcaster
    number : which group it is, from 0 on
    first : the group's first channel, which has position 0
    size : channels of each group
    count : groups there are
    pitch : bytes from the window of a channel to that of the channel at the same position in the next group
    """

    def __init__(self, address_bits: int):
        channels = ("position", "first", "size")
        super().__init__(
            dict.fromkeys(channels, contract.CHANNEL_BITS)
            | {"number": contract.GROUP_BITS, "count": contract.GROUP_BITS, "pitch": address_bits}
        )


class Slots(data.StructLayout):
    """Fixed slots of the PEs: how many of every :data:`contract.SLOTS` each kind of work has; all 0: none is fixed."""

    def __init__(self):
        super().__init__({name: range(contract.SLOTS + 1) for name in contract.SHARES})


def vector_layout(format: FloatFormat, lanes: int) -> data.ArrayLayout:
    """One word for each lane."""
    return data.ArrayLayout(format.width, lanes)


class LaneWrite(data.StructLayout):
    """A write into a lane memory: ``enable`` has a bit for each beat of the vector."""

    def __init__(self, format: FloatFormat, lanes: int, beat_words: int):
        super().__init__(
            {
                "memory": 2,
                "address": contract.LANE_ADDRESS_BITS,
                "enable": lanes // beat_words,
                "data": vector_layout(format, lanes),
            }
        )


class LaneRead(data.StructLayout):
    """A request to read a vector of a lane memory; the vector follows one cycle after the request is taken."""

    def __init__(self):
        super().__init__({"memory": 2, "address": contract.LANE_ADDRESS_BITS})
