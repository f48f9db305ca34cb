"""Sends the digits of integers that are not zero, sequence by sequence."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.broadcast.emitter import lowest
from etalstm_hw.config import SENT_BANKS
from etalstm_hw.contract import COUNT_BITS
from etalstm_hw.contract.integers import WORD_BYTES
from etalstm_hw.integer.sequences import LOWER, UPPER, Extent, SequenceBank, SequenceRead
from etalstm_hw.integer.widths import SCALAR_BITS


class Sent(data.StructLayout):
    """A digit, and where it belongs.

    Members
    -------
    value : the digit; 0 only where a sequence has no lower one
    element : its number in its sequence, which says by which weights it is multiplied
    lower, ends, last : as in :class:`~etalstm_hw.integer.array.Term`
    swept : the last of the last sequence
    final : the last that is sent of its array
    """

    def __init__(self, elements):
        flags = dict.fromkeys(("lower", "ends", "last", "swept", "final"), 1)
        super().__init__({"value": signed(SCALAR_BITS), "element": range(elements)} | flags)


class Digits(data.ArrayLayout):
    """What a broadcaster sends in a cycle: of each stream a digit, ``sent``, if there is one, ``valid``."""

    def __init__(self, elements, streams):
        super().__init__(data.StructLayout({"valid": 1, "sent": Sent(elements)}), streams)


class Picked(data.StructLayout):
    """A digit whose line is being read: ``place`` tells its byte, as in a mask; if ``nothing``, there is none."""

    def __init__(self, sizes):
        places = {"place": range(sizes.line_bytes), "element": range(sizes.elements)}
        super().__init__(places | dict.fromkeys(("lower", "nothing", "ends", "last", "swept", "final"), 1))


class SequencePicker(wiring.Component):
    """Goes through an array's digits: for each sequence the upper ones, if there are any, then the lower ones.

    A digit is picked every cycle. A line without one takes a cycle, each sequence and plane one more. A sequence
    without a lower digit has ``nothing`` instead.

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    extent, pitch, go : :py:`In`
        The array that is to be sent, constant until ``done``.
    flow : :py:`In(1)`
        What is picked is taken.
    read : :py:`Out(SequenceRead(sizes))`
    valid, picked : :py:`Out(1)`, :py:`Out(Picked(sizes))`
    done : :py:`Out(1)`
        The last digit is taken.
    """

    def __init__(self, sizes):
        self._sizes = sizes
        super().__init__(
            {
                "read": Out(SequenceRead(sizes)),
                "extent": In(Extent()),
                "pitch": In(range(sizes.lines + 1)),
                "go": In(1),
                "flow": In(1),
                "valid": Out(1),
                "picked": Out(Picked(sizes)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        """Aim at a sequence and plane; then pick one digit after the other."""
        m = Module()
        picking, plane, aims, ends, missing = (
            Signal(name=name) for name in ("picking", "plane", "aims", "ends", "missing")
        )
        base = Signal(range(self._sizes.lines))  # first line of the sequence
        taken, count, left = self.valid & self.flow, self.read.count, Signal.like(self.read.count)
        passes = (plane == UPPER) & (~self.extent.wide | (count == 0))
        m.d.comb += [
            self.read.plane.eq(plane),
            aims.eq(self.go & ~picking),
            ends.eq(left <= 1),
            self.done.eq(taken & self.picked.final),
        ]
        with m.If(aims):
            m.d.sync += [
                left.eq(count),
                missing.eq(count == 0),
                picking.eq(~passes),
                plane.eq(Mux(passes, LOWER, plane)),
            ]
        with m.If(taken):
            m.d.sync += left.eq(left - 1)
            with m.If(ends):
                again = Mux(self.extent.wide | self.picked.final, UPPER, LOWER)
                m.d.sync += [picking.eq(0), plane.eq(Mux(plane == UPPER, LOWER, again))]
        self._walk(m, base, plane, ends, taken)
        self._pick(m, base, plane, aims, picking, missing, taken)
        return m

    def _walk(self, m, base, plane, ends, taken):
        """Go from sequence to sequence, and begin again; say what a sum's last digit ends."""
        extent, picked = self.extent, self.picked
        sequence, repeat = Signal(range(self._sizes.sequences)), Signal(COUNT_BITS)
        last_sequence, last_repeat = Signal(), Signal()
        m.d.comb += [
            self.read.counted.eq(sequence),
            picked.ends.eq(ends),
            picked.last.eq(ends & (plane == LOWER)),
            picked.swept.eq(picked.last & last_sequence),
            picked.final.eq(picked.swept & last_repeat),
        ]
        # Both are known when the first digit is picked: aiming takes a cycle.
        m.d.sync += [
            last_sequence.eq(sequence + 1 == extent.sequences),
            last_repeat.eq(repeat + 1 == extent.repeats),
        ]
        with m.If(taken & picked.last):
            m.d.sync += [sequence.eq(sequence + 1), base.eq(base + self.pitch)]
        with m.If(taken & picked.swept):
            m.d.sync += [sequence.eq(0), base.eq(0), repeat.eq(Mux(last_repeat, 0, repeat + 1))]

    def _pick(self, m, base, plane, aims, picking, missing, taken):
        """Take the lowest bit of a line's mask, and keep the rest; the next line's is read with the last one."""
        sizes, number = self._sizes, Signal(range(self._sizes.lines))  # of the line, in its sequence and plane
        rest, has_rest = Signal(sizes.line_bytes), Signal()
        now = Mux(has_rest, rest, self.read.mask)
        mask, place = lowest(m, now, "place")
        alone, steps = now == mask, Signal()

        def line(n):
            return base + Mux(self.extent.wide, Cat(plane == LOWER, n), n)

        within, beats = (sizes.beat_words - 1).bit_length(), (sizes.vector_beats - 1).bit_length()
        m.d.comb += [
            self.valid.eq(picking & (now.any() | missing)),
            steps.eq(picking & ~missing & Mux(now.any(), taken & alone, 1)),
            self.read.masked.eq(line(Mux(picking, number + 1, 0))),
            self.read.mask_enable.eq(aims | steps),
            self.read.line_enable.eq(self.flow),
            self.read.line.eq(line(number)),
            self.picked.lower.eq(plane == LOWER),
            self.picked.place.eq(place),
            self.picked.element.eq(Cat(place[:within], number[:beats], place[within:], number[beats:])),
            self.picked.nothing.eq(missing),
        ]
        with m.If(taken):
            m.d.sync += [rest.eq(now & ~mask), has_rest.eq(~alone)]
        with m.If(aims):
            m.d.sync += [number.eq(0), has_rest.eq(0)]
        with m.Elif(steps):
            m.d.sync += number.eq(number + 1)


class SequenceSender(wiring.Component):
    """Keeps arrays of integers, and sends their digits that are not zero, sequence by sequence, maybe several times.

    Ports bring arrays in turn, to the banks in turn. While one is sent, the next ones come in, also to the bank that it
    is in.
    ::

        beats 0, 2 ─► bank 0 ─┐
                              ├─► picker ─│─► line ─► digit ─│─► o
        beats 1, 3 ─► bank 1 ─┘

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    extents : :py:`In(stream.Signature(Extent())).array(sizes.ports)`
        Before the beats of each array.
    beats : :py:`In(stream.Signature(sizes.beat)).array(sizes.ports)`
    o : :py:`Out(stream.Signature(Sent(sizes.elements)))`
    busy : :py:`Out(1)`
        An array was begun and is not sent.
    """

    def __init__(self, sizes):
        self._sizes = sizes
        super().__init__(
            {
                "extents": In(stream.Signature(Extent())).array(sizes.ports),
                "beats": In(stream.Signature(sizes.beat)).array(sizes.ports),
                "o": Out(stream.Signature(Sent(sizes.elements))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Send what is in one bank, then what is in the next one."""
        m = Module()
        m.submodules.picker = picker = SequencePicker(self._sizes)
        banks = [SequenceBank(self._sizes) for _ in range(SENT_BANKS)]
        sending = Signal(range(len(banks)))
        for number, bank in enumerate(banks):
            m.submodules[f"bank{number}"] = bank
            for filler, port in enumerate(range(number, self._sizes.ports, SENT_BANKS)):
                connect(m, flipped(self.extents[port]), bank.extents[filler])
                connect(m, flipped(self.beats[port]), bank.beats[filler])
            m.d.comb += bank.sent.eq(picker.done & (sending == number))
        m.d.comb += [
            picker.extent.eq(Array(bank.present for bank in banks)[sending]),
            picker.pitch.eq(Array(bank.pitch for bank in banks)[sending]),
            picker.go.eq(Array(bank.full for bank in banks)[sending]),
        ]
        m.d.sync += sending.eq(sending + picker.done)
        beat = self._read_bank(m, picker.read, banks, sending)
        reading = self._read(m, beat, picker)
        m.d.comb += self.busy.eq(Cat(bank.busy for bank in banks).any() | reading)
        return m

    def _read_bank(self, m, read, banks, sending):
        """Have the picker read one bank; give the elements that are read."""
        masks_of, beat_of = (Signal.like(sending, name=name) for name in ("masks_of", "beat_of"))
        for number, bank in enumerate(banks):
            chosen, of_bank = sending == number, bank.read
            m.d.comb += [
                *(getattr(of_bank, name).eq(getattr(read, name)) for name in ("masked", "counted", "plane", "line")),
                of_bank.mask_enable.eq(read.mask_enable & chosen),
                of_bank.line_enable.eq(read.line_enable & chosen),
            ]
        with m.If(read.mask_enable):
            m.d.sync += masks_of.eq(sending)
        with m.If(read.line_enable):
            m.d.sync += beat_of.eq(sending)
        m.d.comb += [
            read.count.eq(Array(bank.read.count for bank in banks)[sending]),
            read.mask.eq(Array(bank.read.mask for bank in banks)[masks_of]),
        ]
        return Array(bank.read.beat.as_value() for bank in banks)[beat_of]

    def _read(self, m, beat, picker):
        """Read the line of what is picked; send its digit; give whether there is any."""
        flow, valid = Signal(), Signal()
        picked, out, sends = Signal(Picked(self._sizes), reset_less=True), Signal(Sent(self._sizes.elements)), Signal()
        line = Signal(self._sizes.beat)
        bytes_of_line = Array(word[n].as_signed() for n in range(WORD_BYTES) for word in line)
        m.d.comb += [
            line.eq(beat),
            flow.eq(~sends | self.o.ready),
            picker.flow.eq(flow),
            self.o.valid.eq(sends),
            self.o.p.eq(out),
        ]
        with m.If(flow):
            m.d.sync += [
                valid.eq(picker.valid),
                picked.eq(picker.picked),
                sends.eq(valid),
                out.value.eq(Mux(picked.nothing, 0, bytes_of_line[picked.place])),
                *(out[name].eq(picked[name]) for name in ("element", "lower", "ends", "last", "swept", "final")),
            ]
        return valid | sends
