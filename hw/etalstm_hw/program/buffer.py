"""Keeps a piece of the program at hand: what comes next, and what was executed last."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import BURST_BEATS
from etalstm_hw.axi.bursts import Transfer
from etalstm_hw.axi.reader import ReadBeat
from etalstm_hw.contract import ADDRESS_BITS, CHECK_BITS, CHECK_OFFSET, INSTRUCTION_BITS, LOOP_BITS
from etalstm_hw.contract.image import check_masks, check_of

NUMBER_BITS = 32  # number of an instruction in its program
RING_INSTRUCTIONS = 64  # half of them those that were executed last
_INSTRUCTION_SHIFT = (INSTRUCTION_BITS // 8).bit_length() - 1
_ENTRY_BITS = CHECK_OFFSET + 1 + CHECK_BITS  # of an instruction, with what is wrong with it


def _difference(word, number):
    """Give the bits in which an instruction's check differs from that of its bits and its number."""
    parities = Cat((word[:CHECK_OFFSET] & mask).xor() for mask in check_masks())
    return parities ^ check_of(0, 0) ^ number ^ word[CHECK_OFFSET:]


class ProgramBuffer(wiring.Component):
    """Reads a program ahead into a ring of instructions, from which loops are repeated.

    Half of the ring is for instructions that come next, half for the last ones that were executed. So a step back by up
    to ``depth`` / 2 instructions costs no read: the instruction is there in the next cycle. A longer step back empties
    the ring; the instruction is there after the latency of the memory. Reads that are under way then are dropped when
    they arrive. Nothing is read beyond the program's end.

    Requests are single bursts. They are made at most every other cycle. Reset starts a program over.

    Parameters
    ----------
    beat_bits, address_bits : int
        Sizes of the memory port.
    depth : int
        Instructions of the ring, a power of two.

    Members
    -------
    program : :py:`In(address_bits + 1)` byte address of the program; constant
    length : :py:`In(NUMBER_BITS)`       instructions of the program; constant
    command, data                        to and from the reader of the program's port
    valid : :py:`Out(1)`                 ``word`` and ``error`` are those of the instruction at hand
    word : :py:`Out(INSTRUCTION_BITS)`
                                         without its check
    error : :py:`Out(1)`                 the instruction could not be read, or its address has too many bits
    damaged : :py:`Out(1)`               its check does not fit
    step : :py:`In(1)`                   go on to the next instruction; only with ``valid``
    back : :py:`In(1)`                   go back by ``distance`` instructions, to number ``target``; never with ``step``
    distance, target : :py:`In`
    waiting : :py:`In(range(3))`         instructions that were taken and wait in buffers; they count as in the ring
    """

    def __init__(self, *, beat_bits: int, address_bits: int, depth: int = RING_INSTRUCTIONS):
        self._beats, self._beat_bits = INSTRUCTION_BITS // beat_bits, beat_bits
        self._address_bits, self._depth = address_bits, depth
        self._burst = BURST_BEATS // self._beats  # instructions of a request, at most
        super().__init__(
            {
                "program": In(address_bits + 1),
                "length": In(NUMBER_BITS),
                "command": Out(stream.Signature(Transfer(address_bits, ADDRESS_BITS))),
                "data": In(stream.Signature(ReadBeat(beat_bits))),
                "valid": Out(1),
                "word": Out(INSTRUCTION_BITS),
                "error": Out(1),
                "damaged": Out(1),
                "step": In(1),
                "back": In(1),
                "distance": In(LOOP_BITS),
                "target": In(NUMBER_BITS),
                "waiting": In(range(3)),
            }
        )

    def elaborate(self, platform):
        """The ring's slots are used in turn; counters of instructions say what is in them.
        ::

            │◄─── behind ───►│◄── ready ──►│◄── pending ──►│
            │    executed    │  come next  │   asked for   │
                             ▲             ▲
                             current       fill

        A step moves `current` on, an instruction that arrives moves `fill` on. A step back moves `current` back by
        `distance`. If this is more than `behind`, the ring is emptied: `current` goes to `fill`. What was pending still
        arrives, before anything that is asked for later. `dropped` counts these instructions, which are not stored.
        """
        m = Module()
        m.submodules.ring = ring = memory.Memory(shape=_ENTRY_BITS, depth=self._depth, init=[])
        behind, ready = Signal(range(self._depth + 1)), Signal(range(self._depth + 1))
        pending, dropped = Signal(range(self._depth + 1)), Signal(range(self._depth + 1))
        current, fill = Signal(range(self._depth)), Signal(range(self._depth))
        word, error, whole = self._assemble(m)
        number = Signal(CHECK_BITS)  # of the instruction that is stored next
        # The parities take long. Whether one is wrong is told where the instruction is read.
        difference = Signal(CHECK_BITS)
        within, missed, stored = Signal(), Signal(), Signal()
        asked, beyond = self._ask(m, ready, pending, dropped, missed)
        write, read = ring.write_port(), ring.read_port(domain="comb")
        m.d.comb += [
            within.eq(self.back & (self.distance <= behind)),
            missed.eq(self.back & ~within),
            stored.eq(whole & (dropped == 0)),
            write.addr.eq(fill),
            write.data.eq(Cat(word[:CHECK_OFFSET], error, _difference(word, number))),
            write.en.eq(stored),
            read.addr.eq(current),
            Cat(self.word[:CHECK_OFFSET], self.error, difference).eq(Mux(beyond, 1 << CHECK_OFFSET, read.data)),
            self.damaged.eq(difference.any()),
            self.valid.eq((ready != 0) | (beyond & (pending == 0))),
        ]
        m.d.sync += [
            fill.eq(fill + stored),
            number.eq(number + stored),
            current.eq(current + self.step),
            ready.eq(ready + stored - self.step),
            behind.eq(Mux(behind == self._depth // 2, behind, behind + self.step)),
            pending.eq(pending + asked - stored),
            dropped.eq(dropped - (whole & ~stored)),
        ]
        with m.If(within):
            m.d.sync += [
                current.eq(current - self.distance[: len(current)]),
                ready.eq(ready + stored + self.distance[: len(ready)]),
                behind.eq(behind - self.distance[: len(behind)]),
            ]
        with m.If(missed):
            m.d.sync += [current.eq(fill + stored), ready.eq(0), behind.eq(0), pending.eq(0)]
            m.d.sync += [dropped.eq(dropped + pending + asked - whole), number.eq(self.target)]
        return m

    def _assemble(self, m):
        """Make instructions of beats; give one, whether a beat of it was in error, and when it is whole."""
        gathered, beat = Signal(INSTRUCTION_BITS, reset_less=True), Signal(range(max(self._beats, 2)))
        failed, error, last = Signal(), Signal(), beat == self._beats - 1
        word = Cat(gathered, self.data.p.data)[self._beat_bits :]
        m.d.comb += [self.data.ready.eq(1), error.eq(failed | self.data.p.error)]
        with m.If(self.data.valid):
            m.d.sync += [gathered.eq(word), beat.eq(Mux(last, 0, beat + 1)), failed.eq(error & ~last)]
        return word, error, self.data.valid & last

    def _ask(self, m, ready, pending, dropped, missed):
        """Ask for bursts; give how many instructions are asked for now, and whether the next has no address."""
        following, count = Signal(NUMBER_BITS), Signal(range(self._burst + 1))
        left, to_boundary = Signal(NUMBER_BITS), Signal.like(count)
        wide = max(len(self.program), NUMBER_BITS + _INSTRUCTION_SHIFT) + 1
        address, room, asked, beyond = Signal(wide), Signal(), Signal.like(count), Signal()
        m.d.comb += [
            left.eq(self.length - following),
            to_boundary.eq(self._burst - (following % self._burst)),
            room.eq(
                (ready + pending + self.waiting + self._burst <= self._depth // 2)
                & (dropped + pending + self._burst <= self._depth)
            ),
            beyond.eq(address[self._address_bits :].any()),
            self.command.p.address.eq(address),
            self.command.p.beats.eq(count * self._beats),
        ]
        with m.FSM() as fsm:
            with m.State("LOCATE"):
                m.d.sync += [
                    address.eq(self.program + (following << _INSTRUCTION_SHIFT)),
                    count.eq(Mux(left < to_boundary, left, to_boundary)),
                ]
                with m.If((left != 0) & ~missed):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += self.command.valid.eq(room & ~beyond)
                with m.If(self.command.valid & self.command.ready):
                    m.d.comb += asked.eq(count)
                    m.d.sync += following.eq(following + count)
                    m.next = "LOCATE"
                with m.If(missed):
                    m.next = "LOCATE"
        with m.If(missed):
            m.d.sync += following.eq(self.target)
        return asked, fsm.ongoing("ASK") & beyond & (ready == 0)
