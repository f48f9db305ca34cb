"""Sequencer: a program's states, in order; the first reason counts; nothing keeps the machine for ever."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Cover, Mux, Signal
from amaranth.lib import data

from tests.formal.harness import before, bench, constant, payload
from tests.formal.prove import Change, Mutant, Proof, pdr

_QUIET, _IDLE_BITS, _NUMBER_BITS = 3, 4, 2


def sequencer(load):
    """Look at its states; the parts that instructions pass are replaced by free signals.

    Three quiet cycles in place of 7 and a watchdog of up to 3: both are counted to and compared. Numbers of
    instructions are copied.
    """
    module, contract = load("etalstm_hw.program.sequencer"), load("etalstm_hw.contract")
    status, halt, refusal, number = contract.Status, Signal(), Signal(4), Signal(_NUMBER_BITS)

    class Bare(module.Sequencer):
        def _connect(self, m):
            m.d.comb += [halt.eq(AnySeq(1)), refusal.eq(AnySeq(4)), number.eq(AnySeq(_NUMBER_BITS))]
            m.d.comb += self.o.valid.eq(AnySeq(1))
            return halt, refusal, number

    unit = Bare(beat_bits=8, address_bits=8)
    m = bench(unit)
    constant(m, unit.watchdog)
    moved = unit.progress | (unit.o.valid & unit.o.ready)
    works, drains = unit.active & ~unit.drain, unit.active & unit.drain
    outcome = payload(unit.status, unit.engine, unit.instruction)
    last, worked, drained = (
        before(m, outcome, name="last"),
        before(m, works, name="works"),
        before(m, drains, name="drains"),
    )
    started = before(m, unit.start & ~unit.running, name="started")
    stuck = Signal(4)  # cycles without movement in one state
    m.d.sync += stuck.eq(Mux(moved | ~unit.active | (worked & drains), 0, Mux(stuck == 15, 15, stuck + 1)))
    watched = (unit.watchdog != 0) & (stuck > unit.watchdog + 1)
    halted, calm = Signal(), Signal(4)
    m.d.sync += [
        halted.eq(works & (halted | halt)),
        calm.eq(Mux(unit.busy | ~halted, 0, Mux(calm == 15, 15, calm + 1))),
    ]

    # What ends a program before its time, by rank.
    why = Signal(data.StructLayout({"status": 4, "engine": 4, "instruction": _NUMBER_BITS}))
    with m.If(unit.abort):
        m.d.comb += why.status.eq(status.ABORTED)
    with m.Elif(unit.fault != status.IDLE):
        m.d.comb += [why.status.eq(unit.fault), why.engine.eq(unit.fault_engine)]
        m.d.comb += why.instruction.eq(unit.fault_instruction)
    with m.Elif(unit.refusal != status.IDLE):
        m.d.comb += [why.status.eq(unit.refusal), why.engine.eq(module.SEQUENCER_ENGINE), why.instruction.eq(number)]
    told, told_why = (
        before(m, v, name=n) for v, n in ((works & (why.status != status.IDLE), "told"), (why, "told_why"))
    )
    m.d.comb += Assert(~told | (drains & (outcome == told_why)))
    any_reason = told | before(m, works & (refusal != status.IDLE), name="refused")
    dry, waited = before(m, ~unit.dma_busy, name="dry"), before(m, stuck, name="waited")
    timed_out = (unit.status == status.STUCK) & ~any_reason
    m.d.comb += [
        Assert(~(worked & drains & timed_out) | ((unit.watchdog != 0) & (waited >= unit.watchdog))),
        Assert(~(drained & ~drains) | dry | ((unit.watchdog != 0) & (waited + 1 >= unit.watchdog))),
        Assert(unit.running == unit.active),
        Assert(~unit.drain | unit.active),
        Assert(~started | (works & (unit.status == status.RUNNING))),
        Assert(~unit.active | worked | drained | started),  # nothing else begins it
        Assert(~works | ~drained),
        Assert(~works | (unit.status == status.RUNNING)),
        Assert(~worked | unit.active),  # it ends through the drain only
        Assert(~drained | drains | dry | (unit.status == status.STUCK)),
        Assert(~(drained & drains) | (outcome == last)),
        Assert(~(drained & ~drains) | (outcome == last) | (outcome[4:] == last[4:]) & (unit.status == status.STUCK)),
        Assert(worked | drained | started | (outcome == last)),
        Assert(
            ~(worked & drains & (unit.status == status.DONE))
            | any_reason
            | (before(m, calm, name="calm_before") >= _QUIET)
        ),
        Assert(~(works & watched)),
        Assert(~(drains & watched)),
        Assert(~works | (calm <= _QUIET)),
        Cover(drained & ~unit.active & (unit.status == status.DONE)),
        Cover(drained & ~unit.active & (unit.status == status.STUCK) & (unit.watchdog == 3)),
        Cover(drained & ~unit.active & (unit.status == status.ABORTED)),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.program.sequencer", old, new, survives)


PROOFS = [
    Proof(
        name="Sequencer",
        build=sequencer,
        claim="start, run, drain, end; the first reason stands; the watchdog ends a state in time; DONE after quiet",
        method=pdr(),
        reach=16,
        small=(
            Change("etalstm_hw.program.sequencer", "_QUIET_CYCLES = 7", f"_QUIET_CYCLES = {_QUIET}"),
            Change(
                "etalstm_hw.program.sequencer",
                "idle_cycles, quiet = Signal(32)",
                f"idle_cycles, quiet = Signal({_IDLE_BITS})",
            ),
            Change("etalstm_hw.program.sequencer", '"watchdog": In(32)', '"watchdog": In(2)'),
            Change("etalstm_hw.program.sequencer", '"instruction": Out(32)', f'"instruction": Out({_NUMBER_BITS})'),
            Change("etalstm_hw.contract.fields", "COMPLETED_BITS = 32", f"COMPLETED_BITS = {_NUMBER_BITS}"),
            Change("etalstm_hw.contract.fields", "TARGET_BITS = 20", f"TARGET_BITS = {_NUMBER_BITS}"),
        ),
        mutants=(
            _mutant("moved | ~self.running, 0", "moved, 0"),
            _mutant("(self.watchdog != 0) & (idle", "(idle"),
            _mutant("idle_cycles >= self.watchdog", "idle_cycles == self.watchdog", "it counts by one and ends there"),
            _mutant("m.d.sync += idle_cycles.eq(0)", "pass"),
            _mutant('m.next = "DRAIN"', 'm.next = "IDLE"'),
            _mutant("Mux(self.busy, 0, quiet + 1)", "quiet + 1"),
            _mutant("with m.If(quiet == _QUIET_CYCLES):", "with m.If(quiet == _QUIET_CYCLES - 1):"),
            _mutant("with m.If(~self.dma_busy):", "with m.If(self.dma_busy):"),
            _mutant("with m.Elif(stuck):", "with m.Elif(0):"),
            _mutant("m.d.sync += self.status.eq(Status.STUCK)", "pass"),
            _mutant("end(self.fault, self.fault_engine, self.fault_instruction)", "end(self.fault)"),
            _mutant("end(Status.ABORTED, C(0), C(0))", "end(Status.ABORTED)"),
            _mutant(
                "with m.If(self.fault != Status.IDLE):", "with m.If((self.fault != Status.IDLE) & (self.refusal == 0)):"
            ),
            _mutant("self.status.eq(Status.RUNNING), ", ""),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
