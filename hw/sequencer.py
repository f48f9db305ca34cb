"""Fetches a program, checks and dispatches its instructions, and sees the machine to its end."""

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm.hw import contract
from etalstm.hw.contract import Opcode, Status

SEQUENCER_ENGINE = len(contract.Engine)

# An instruction on its way from one queue to the next is in neither for less than this.
_QUIET_CYCLES = 7

# Fields that may not be 0, by opcode.
_COUNTS = {
    Opcode.LOAD: ("outer", "inner"),
    Opcode.LOAD_ROWS: ("outer", "inner", "lanes", "last_lanes", "tiles_per_channel"),
    Opcode.STORE: ("outer", "inner"),
    Opcode.VECTOR: ("outer", "inner"),
    Opcode.TRANSPOSE: ("outer", "rows", "lanes"),
    Opcode.MAC: ("tiles",),
    Opcode.CAST: ("blocks", "gates", "batch", "lanes", "last_lanes", "tiles", "tiles_per_channel"),
}


class Sequencer(wiring.Component):
    """Runs one program from start to a status.

    Instructions arrive beat by beat and leave one at a time, in order, to the queue of their engine. HALT waits until
    every engine is idle. Whatever ends the program, the machine is then drained (no new memory accesses, those under
    way are finished) and only after that ``running`` falls. If the drain makes no progress for ``watchdog`` cycles, the
    memory does not answer any more and the machine stops all the same.

    Parameters
    ----------
    beat_bits, address_bits : int
        Width of a memory beat and of a byte address.

    Members
    -------
    start, abort : :py:`In(1)`           pulses from the host
    program, length : :py:`In`           byte address, number of instructions
    watchdog : :py:`In(32)`              cycles without progress until ``STUCK``; 0: never
    command, data                        to and from the reader of the program's port
    o : :py:`Out(stream.Signature(256))` instructions to the engines
    refusal : :py:`In(Status)`           why the instruction at ``o`` is not taken (IDLE: it will be)
    busy, draining : :py:`In(1)`         an engine has work; a memory access is under way
    progress : :py:`In(1)`               something moved in an engine
    fault, fault_engine, fault_instruction
                                         first status of an engine (IDLE: none), which, and how far it had come
    running : :py:`Out(1)`               between start and the end of the drain
    active : :py:`Out(1)`                engines may work; low: they are held in reset
    drain : :py:`Out(1)`                 memory ports start nothing new
    status, engine, instruction          outcome of the last program
    """

    def __init__(self, *, beat_bits, address_bits):
        self._beat_bits = beat_bits
        super().__init__(
            {
                "start": In(1),
                "abort": In(1),
                "program": In(address_bits),
                "length": In(32),
                "watchdog": In(32),
                "command": Out(
                    stream.Signature(data.StructLayout({"address": address_bits, "beats": contract.ADDRESS_BITS}))
                ),
                "data": In(stream.Signature(data.StructLayout({"data": beat_bits, "last": 1}))),
                "o": Out(stream.Signature(contract.INSTRUCTION_BITS)),
                "busy": In(1),
                "draining": In(1),
                "progress": In(1),
                "fault": In(Status),
                "fault_engine": In(4),
                "fault_instruction": In(32),
                "read_error": In(1),
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
        """One FSM; the program's instructions pass through a register."""
        m = Module()
        beats = contract.INSTRUCTION_BITS // self._beat_bits
        shift, place = Signal(contract.INSTRUCTION_BITS), Signal(range(max(beats, 2)))
        word, held = Signal(contract.INSTRUCTION_BITS), Signal()
        fetched = Signal(32)
        idle_cycles = Signal(32)
        stuck, moved = Signal(), Signal()
        quiet = Signal(range(_QUIET_CYCLES + 1))

        def stop(status, engine=SEQUENCER_ENGINE, instruction=fetched):
            """Keep the first reason and drain."""
            m.d.sync += [self.status.eq(status), self.engine.eq(engine), self.instruction.eq(instruction)]
            m.next = "DRAIN"

        m.d.comb += [
            moved.eq(self.progress | (self.o.valid & self.o.ready) | (self.data.valid & self.data.ready)),
            stuck.eq((self.watchdog != 0) & (idle_cycles >= self.watchdog)),
        ]
        m.d.sync += idle_cycles.eq(Mux(moved | ~self.running, 0, idle_cycles + 1))
        opcode = word[: contract.OPCODE_BITS]

        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [self.status.eq(Status.RUNNING), self.engine.eq(0), self.instruction.eq(0)]
                    m.d.sync += [place.eq(0), held.eq(0), fetched.eq(0), quiet.eq(0)]
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [
                    self.active.eq(1),
                    self.command.valid.eq(self.length != 0),
                    self.command.payload.address.eq(self.program),
                    self.command.payload.beats.eq(self.length * beats),
                ]
                with m.If(self.length == 0):
                    stop(Status.TRUNCATED)
                with m.Elif(self.command.ready):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.active.eq(1)
                m.d.comb += self.data.ready.eq(~held)
                with m.If(self.data.valid & self.data.ready):
                    m.d.sync += shift.eq(Cat(shift, self.data.payload.data)[self._beat_bits :])
                    m.d.sync += place.eq(Mux(place == beats - 1, 0, place + 1))
                    with m.If(place == beats - 1):
                        m.d.sync += [word.eq(Cat(shift, self.data.payload.data)[self._beat_bits :]), held.eq(1)]
                with m.If(held):
                    self._dispatch(m, word, opcode, held, fetched, stop)
                with m.Elif(fetched == self.length):
                    stop(Status.TRUNCATED)
                self._watch(m, stop, stuck)
            with m.State("FINISH"):  # HALT: the engines empty their queues
                m.d.comb += self.active.eq(1)
                m.d.sync += quiet.eq(Mux(self.busy, 0, quiet + 1))
                with m.If(quiet == _QUIET_CYCLES):
                    stop(Status.DONE)
                self._watch(m, stop, stuck)
            with m.State("DRAIN"):
                m.d.comb += [self.active.eq(1), self.drain.eq(1), self.data.ready.eq(1)]
                with m.If(~self.draining):
                    m.next = "IDLE"
                with m.Elif(stuck):
                    m.d.sync += self.status.eq(Status.STUCK)
                    m.next = "IDLE"
        m.d.comb += self.running.eq(self.active)
        return m

    def _dispatch(self, m, word, opcode, held, fetched, stop):
        """Send the held instruction on, or stop at it."""
        with m.Switch(opcode):
            with m.Case(Opcode.HALT):
                m.d.sync += held.eq(0)
                m.next = "FINISH"
            for kind, names in _COUNTS.items():
                with m.Case(kind):
                    fields = contract.layout(kind)
                    zero = Const(0)
                    for name in names:
                        offset, width = fields[name]
                        zero |= word[offset : offset + width] == 0
                    m.d.comb += [self.o.payload.eq(word), self.o.valid.eq(~zero)]
                    with m.If(zero):
                        stop(Status.BAD_FIELD)
                    with m.Elif(self.o.ready):
                        m.d.sync += [held.eq(0), fetched.eq(fetched + 1)]
            with m.Default():
                stop(Status.BAD_OPCODE)

    def _watch(self, m, stop, stuck):
        """Whatever ends a program before its time; the last of these to apply wins."""
        with m.If(stuck):
            stop(Status.STUCK)
        with m.If(self.read_error):
            stop(Status.READ_ERROR)
        with m.If(self.refusal != Status.IDLE):
            stop(self.refusal)
        with m.If(self.fault != Status.IDLE):
            stop(self.fault, self.fault_engine, self.fault_instruction)
        with m.If(self.abort):
            stop(Status.ABORTED, C(0), C(0))
