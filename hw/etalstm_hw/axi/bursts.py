"""Cuts transfers into bursts that every AXI memory accepts."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import BOUNDARY_BYTES, BURST_BEATS
from etalstm_hw.contract import KIND_BITS


def _tagged(tag) -> dict:
    """Leave the field out where there is none: Verilog has no signals of width 0."""
    return {} if tag is None else {"tag": tag}


class WriteTag(data.StructLayout):
    """What a writer's transfer carries besides its address.

    Members
    -------
    kind : which :class:`~etalstm_hw.contract.Traffic` its beats count as
    final : the last transfer of its instruction
    """

    def __init__(self):
        super().__init__({"kind": KIND_BITS, "final": 1})


class Transfer(data.StructLayout):
    """Consecutive beats of memory.

    Members
    -------
    address : byte address of the first beat, a multiple of a beat's bytes
    beats : how many, at least 1
    tag : passed on unchanged, if there is one
    """

    def __init__(self, address_bits: int, beats_bits: int, tag=None):
        super().__init__({"address": address_bits, "beats": beats_bits} | _tagged(tag))


class Burst(data.StructLayout):
    """An AXI burst.

    Members
    -------
    address : byte address
    length : beats - 1
    last : the last burst of its transfer
    tag : that of the transfer, if it has one
    """

    def __init__(self, address_bits: int, tag=None):
        super().__init__({"address": address_bits, "length": range(BURST_BEATS), "last": 1} | _tagged(tag))


class Bursts(wiring.Component):
    """Cuts each transfer at the multiples of 16 beats, and so at those of 4 KiB.

    Latency 1 cycle; one burst a cycle, also when each is a transfer of its own. A stalled output stalls the input.
    ``clear`` forgets the transfer that is being cut; a burst not yet taken disappears.

    Parameters
    ----------
    address_bits, data_bits : int
        Sizes of the memory port.
    beats_bits : int
        Bits of a transfer's number of beats.
    tag : ShapeLike, optional
        What a transfer carries besides.

    Members
    -------
    i : :py:`In(stream.Signature(Transfer(address_bits, beats_bits, tag)))`
    o : :py:`Out(stream.Signature(Burst(address_bits, tag)))`
    clear : :py:`In(1)`
    """

    def __init__(self, address_bits: int, data_bits: int, beats_bits: int, tag=None):
        beat_bytes = data_bits // 8
        if beat_bytes * BURST_BEATS > BOUNDARY_BYTES:
            raise ValueError(f"{BURST_BEATS} beats of {data_bits} bits do not fit into {BOUNDARY_BYTES} bytes")
        self._shift = beat_bytes.bit_length() - 1
        self._address_bits, self._beats_bits, self._tag = address_bits, beats_bits, tag
        super().__init__(
            {
                "i": In(stream.Signature(Transfer(address_bits, beats_bits, tag))),
                "o": Out(stream.Signature(Burst(address_bits, tag))),
                "clear": In(1),
            }
        )

    def elaborate(self, platform):
        """One transfer in registers: where it goes on and what is left of it."""
        m = Module()
        beat = Signal(self._address_bits - self._shift, reset_less=True)
        left = Signal(max(self._beats_bits, BURST_BEATS.bit_length()), reset_less=True)
        active = Signal()

        to_boundary = Signal(range(BURST_BEATS + 1))
        last = Signal()
        length = Signal(range(BURST_BEATS + 1))
        m.d.comb += [
            to_boundary.eq(BURST_BEATS - beat[: (BURST_BEATS - 1).bit_length()]),
            last.eq(left <= to_boundary),
            length.eq(Mux(last, left, to_boundary)),
            self.o.valid.eq(active),
            self.o.p.address.eq(beat << self._shift),
            self.o.p.length.eq(length - 1),
            self.o.p.last.eq(last),
            self.i.ready.eq(~self.clear & (~active | (self.o.ready & last))),
        ]

        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [beat.eq(beat + length), left.eq(left - length), active.eq(~last)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                beat.eq(self.i.p.address >> self._shift),
                left.eq(self.i.p.beats),
                active.eq(1),
            ]
            if self._tag is not None:
                m.d.sync += self.o.p.tag.eq(self.i.p.tag)
        with m.If(self.clear):
            m.d.sync += active.eq(0)
        return m
