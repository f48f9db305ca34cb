"""Blocks of a CAST instruction, and the buffers that they lie in."""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from etalstm_hw import contract
from etalstm_hw.codec.decompress import StreamSize
from etalstm_hw.contract import Opcode, Status
from etalstm_hw.dma.indexed import BeatKind
from etalstm_hw.stream import LANE_OFFSET_BITS

CAST_FIELDS = ("gates", "batch", "tiles", "batch_outer", "narrow")
"""Fields of a CAST that all of its blocks have as they are."""


class BlockLayout(data.StructLayout):
    """A block that lies in a buffer, and what is to be sent of it.

    Members
    -------
    bank : which buffer
    lane, last_lane : first and last lane that are sent
    gates, batch, tiles, batch_outer, narrow : as in the CAST instruction
    row_vectors : vectors of weights of a scalar, by which `outer` advances
    outer : outer offset of its first words, see :func:`~etalstm_hw.stream.lane_offset`
    inner : number of the sum of its first word; if batch_outer, of the first word of its first beat, which may be a
        word before `lane`: modulo a power of two
    sums : how many sums all blocks since `start` have, this one too
    start : sums start anew with this block
    finish : sums that got no scalar are set to their start after this block
    last : the instruction's last block

    Parameters
    ----------
    words : int
        Size of a buffer in words.
    """

    def __init__(self, words: int):
        cast = {name: width for name, (_, width) in contract.layout(Opcode.CAST).items()}
        super().__init__(
            {
                "bank": 1,
                "lane": cast["lane"],
                "last_lane": cast["lanes"],
                **{name: cast[name] for name in CAST_FIELDS},
                "row_vectors": cast["tiles"],
                "outer": LANE_OFFSET_BITS,
                "inner": range(words),
                "sums": range(words + 1),
                "start": 1,
                "finish": 1,
                "last": 1,
            }
        )


class BlockPlan(data.StructLayout):
    """What must be known of the beats of a block when they come; ``verdict`` is not IDLE if none will.

    Members
    -------
    verdict, beat_kind, kind
    stream_size : of a stream
    fresh : the first block of its instruction
    block : where it comes from and goes to; its bank is not chosen yet

    Parameters
    ----------
    words, word_bits : int
        Size of a buffer in words, and of a word.
    """

    def __init__(self, words: int, word_bits: int):
        super().__init__(
            {
                "verdict": Status,
                "beat_kind": BeatKind,
                "kind": contract.KIND_BITS,
                "stream_size": StreamSize(word_bits),
                "fresh": 1,
                "block": BlockLayout(words),
            }
        )


class BlockBuffer(wiring.Component):
    """Two banks of beats with one write and one read port, read latency one cycle.

    The read data keep their value while ``read_enable`` is low.
    """

    def __init__(self, *, beat_bits, words, beat_words):
        self._depth = 2 * words // beat_words
        self._beat_bits = beat_bits
        super().__init__(
            {
                "write_address": In(range(self._depth)),
                "write_data": In(beat_bits),
                "write_enable": In(1),
                "read_address": In(range(self._depth)),
                "read_enable": In(1),
                "read_data": Out(beat_bits),
            }
        )

    def elaborate(self, platform):
        """One memory, of ultra RAM: the channels leave the board's part less block RAM than that."""
        m = Module()
        shape = {"shape": self._beat_bits, "depth": self._depth, "init": []}
        m.submodules.memory = memory = Memory(**shape, attrs={"ram_style": "ultra"})
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            write.en.eq(self.write_enable),
            read.addr.eq(self.read_address),
            read.en.eq(self.read_enable),
            self.read_data.eq(read.data),
        ]
        return m
