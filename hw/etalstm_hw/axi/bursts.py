"""Cuts transfers into bursts that every AXI memory accepts."""

from amaranth.hdl import Cat, Module, Mux, Signal
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
        """One transfer in registers: where it goes on, how many bursts follow, and where the last one ends.

        A burst's length is selected from registers. So little logic lies before a decision that depends on it.
        """
        m = Module()
        bits = (BURST_BEATS - 1).bit_length()
        page = Signal(self._address_bits - self._shift - bits, reset_less=True)  # 16 beats of memory
        first, final = Signal(bits, reset_less=True), Signal(bits, reset_less=True)  # beats of this page and the last
        single = Signal(bits, reset_less=True)  # length of this burst less 1 if it is the last one
        following, last, active = Signal(self._beats_bits, reset_less=True), Signal(reset_less=True), Signal()
        start, final_beat = self.i.p.address[self._shift :], Signal(max(self._beats_bits, bits) + 1)
        m.d.comb += [
            final_beat.eq(start[:bits] + self.i.p.beats - 1),
            self.o.valid.eq(active),
            self.o.p.address.eq(Cat(first, page) << self._shift),
            self.o.p.length.eq(Mux(last, single, ~first)),
            self.o.p.last.eq(last),
            self.i.ready.eq(~self.clear & (~active | (self.o.ready & last))),
        ]

        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [page.eq(page + 1), first.eq(0), single.eq(final)]
            m.d.sync += [following.eq(following - 1), last.eq(following == 1), active.eq(~last)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                Cat(first, page).eq(start),
                final.eq(final_beat),
                single.eq(self.i.p.beats - 1),
                following.eq(final_beat[bits:]),
                last.eq(final_beat[bits:] == 0),
                active.eq(1),
            ]
            if self._tag is not None:
                m.d.sync += self.o.p.tag.eq(self.i.p.tag)
        with m.If(self.clear):
            m.d.sync += active.eq(0)
        return m
