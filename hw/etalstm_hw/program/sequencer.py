"""Starts a program, hands its instructions on, and sees the machine to its end."""

from amaranth.hdl import C, DomainRenamer, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw import contract
from etalstm_hw.axi.bursts import Transfer
from etalstm_hw.axi.reader import ReadBeat
from etalstm_hw.contract import Status
from etalstm_hw.elastic import Elastic
from etalstm_hw.program.buffer import NUMBER_BITS, ProgramBuffer
from etalstm_hw.program.dispatch import Dispatch
from etalstm_hw.program.loops import Fetched, Loops
from etalstm_hw.stream import Dispatched

SEQUENCER_ENGINE = len(contract.Engine)

# An instruction that moves between two queues is in neither for up to six cycles. The machine counts as idle only after
# seven quiet cycles.
_QUIET_CYCLES = 7


class _Leaving(data.StructLayout):
    """An instruction after the dispatch, and its number in the program."""

    def __init__(self):
        super().__init__({"instruction": Dispatched(), "number": NUMBER_BITS})


class Sequencer(wiring.Component):
    """Runs one program from start to a status.

    ::

        data ── ProgramBuffer ── Loops ── Elastic ── Dispatch ── Elastic ── o

    Instructions leave one at a time, in order, to the queue of their engine. HALT waits until every engine is idle.
    Whatever ends the program, the machine is then drained: no memory access begins, those in flight are finished. Only
    after that ``running`` falls. If the drain makes no progress for ``watchdog`` cycles, the memory does not answer any
    more and the machine stops all the same.

    The parts are in the domain ``program``, which is kept in reset while ``active`` is low.

    Parameters
    ----------
    beat_bits, address_bits : int
        Width of a memory beat and of a byte address.
    integers : bool
        Products are integers, else float32.

    Members
    -------
    start, abort : :py:`In(1)`           pulses from the host
    program, length : :py:`In`           byte address, number of instructions; nothing is read from 2^address_bits on
    watchdog : :py:`In(32)`              cycles without progress until ``STUCK``; 0: never
    command, data                        to and from the reader of the program's port
    o : :py:`Out(stream.Signature(Dispatched()))`
                                         instructions to the engines
    refusal : :py:`In(Status)`           why the instruction at ``o`` is not taken (IDLE: it will be)
    busy, dma_busy : :py:`In(1)`         an engine has work; a memory access is in flight
    progress : :py:`In(1)`               something moved in an engine
    fault, fault_engine, fault_instruction
                                         first status of an engine (IDLE: none), which, and how far it had come
    running : :py:`Out(1)`               between start and the end of the drain
    active : :py:`Out(1)`                engines may work; low: they are kept in reset
    drain : :py:`Out(1)`                 memory ports start nothing new
    status, engine, instruction          outcome of the last program; ``instruction`` is what an engine had completed,
                                         for the sequencer the number of the first instruction not handed on
    """

    def __init__(self, *, beat_bits, address_bits, integers=False):
        self._integers = integers
        self._sizes = {"beat_bits": beat_bits, "address_bits": address_bits}
        super().__init__(
            {
                "start": In(1),
                "abort": In(1),
                "program": In(address_bits + 1),
                "length": In(NUMBER_BITS),
                "watchdog": In(32),
                "command": Out(stream.Signature(Transfer(address_bits, contract.ADDRESS_BITS))),
                "data": In(stream.Signature(ReadBeat(beat_bits))),
                "o": Out(stream.Signature(Dispatched())),
                "busy": In(1),
                "dma_busy": In(1),
                "progress": In(1),
                "fault": In(Status),
                "fault_engine": In(4),
                "fault_instruction": In(contract.COMPLETED_BITS),
                "refusal": In(Status),
                "running": Out(1),
                "active": Out(1),
                "drain": Out(1),
                "status": Out(Status),
                "engine": Out(4),
                "instruction": Out(32),
            }
        )

    def elaborate(self, platform):
        """One FSM beside the parts that instructions pass."""
        m = Module()
        halt, refusal, number = self._connect(m)
        idle_cycles, quiet = Signal(32), Signal(range(_QUIET_CYCLES + 1))
        stuck, moved = Signal(), Signal()
        m.d.comb += [
            moved.eq(self.progress | (self.o.valid & self.o.ready)),
            stuck.eq((self.watchdog != 0) & (idle_cycles >= self.watchdog)),
            self.running.eq(self.active),
        ]
        m.d.sync += idle_cycles.eq(Mux(moved | ~self.running, 0, idle_cycles + 1))

        def end(status, engine=SEQUENCER_ENGINE, instruction=number):
            """End the program for a reason: keep the reason, and drain. The drain's watchdog begins anew."""
            m.d.sync += [self.status.eq(status), self.engine.eq(engine), self.instruction.eq(instruction)]
            m.d.sync += idle_cycles.eq(0)
            m.next = "DRAIN"

        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [self.status.eq(Status.RUNNING), self.engine.eq(0), self.instruction.eq(0)]
                    m.d.sync += quiet.eq(0)
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.active.eq(1)
                with m.If(halt):
                    m.next = "FINISH"
                with m.If(refusal != Status.IDLE):
                    end(refusal)
                self._watch(m, end, stuck)
            with m.State("FINISH"):  # HALT: the engines empty their queues
                m.d.comb += self.active.eq(1)
                m.d.sync += quiet.eq(Mux(self.busy, 0, quiet + 1))
                with m.If(quiet == _QUIET_CYCLES):
                    end(Status.DONE)
                self._watch(m, end, stuck)
            with m.State("DRAIN"):
                m.d.comb += [self.active.eq(1), self.drain.eq(1)]
                with m.If(~self.dma_busy):
                    m.next = "IDLE"
                with m.Elif(stuck):
                    m.d.sync += self.status.eq(Status.STUCK)
                    m.next = "IDLE"
        return m

    def _connect(self, m):
        """Join the parts; give whether HALT or a refused instruction is next, and the first not handed on's number."""
        of_program = DomainRenamer("program")
        buffer, loops, dispatch = ProgramBuffer(**self._sizes), Loops(), Dispatch(self._integers)
        fetched, leaving = Elastic(Fetched()), Elastic(_Leaving())
        parts = {"buffer": buffer, "loops": loops, "fetched": fetched, "dispatch": dispatch, "leaving": leaving}
        for name, part in parts.items():
            m.submodules[name] = of_program(part)
        connect(m, flipped(self.data), buffer.data)
        connect(m, buffer.command, flipped(self.command))
        connect(m, loops.o, fetched.i)
        connect(m, fetched.o, dispatch.i)
        m.d.comb += [
            buffer.program.eq(self.program),
            buffer.length.eq(self.length),
            loops.length.eq(self.length),
            *(getattr(buffer, name).eq(getattr(loops, name)) for name in ("step", "back", "distance", "target")),
            *(getattr(loops, name).eq(getattr(buffer, name)) for name in ("valid", "word", "error", "damaged")),
            buffer.waiting.eq(fetched.full + leaving.full),
            leaving.i.valid.eq(dispatch.o.valid),
            leaving.i.p.instruction.eq(dispatch.o.p),
            leaving.i.p.number.eq(dispatch.number),
            dispatch.o.ready.eq(leaving.i.ready),
            self.o.valid.eq(leaving.o.valid & ~self.drain),
            self.o.p.eq(leaving.o.p.instruction),
            leaving.o.ready.eq(self.o.ready),
        ]
        waiting = Mux(dispatch.waiting, dispatch.number, loops.number)
        number = Mux(leaving.o.valid, leaving.o.p.number, waiting)
        return dispatch.halt & ~leaving.o.valid, Mux(leaving.o.valid, Status.IDLE, dispatch.refusal), number

    def _watch(self, m, end, stuck):
        """Whatever ends a program before its time; the last of these to apply wins."""
        with m.If(stuck):
            end(Status.STUCK)
        with m.If(self.refusal != Status.IDLE):
            end(self.refusal)
        with m.If(self.fault != Status.IDLE):
            end(self.fault, self.fault_engine, self.fault_instruction)
        with m.If(self.abort):
            end(Status.ABORTED, C(0), C(0))
