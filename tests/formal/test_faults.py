"""Faults: the fault of the first channel that has one."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import bench
from tests.formal.prove import Change, Mutant, Proof, induction

_CHANNELS = 5


def faults(load):
    """Say anew which channel is the first, from what all of them showed two cycles before.

    Five channels in groups of two: full groups, a later one and one that is not full. Counts of 2 bits are copied.
    """
    contract = load("etalstm_hw.contract")
    unit = load("etalstm_hw.machine.faults").Faults(_CHANNELS)
    m = bench(unit)
    idle, engines = contract.Status.IDLE, [contract.Engine.LOAD, contract.Engine.MAC, contract.Engine.VECTOR]
    fault = {name: Signal.like(unit.fault[name], name=f"first_{name}") for name in ("status", "engine", "instruction")}
    nothing = Signal(init=1)
    for number in reversed(range(_CHANNELS)):
        channel = unit.channels[number]
        status, engine = (Signal.like(channel[name], name=f"{name}{number}") for name in ("status", "engine"))
        m.d.sync += [status.eq(channel.status), engine.eq(channel.engine)]
        m.d.comb += Assume(channel.engine <= contract.Engine.STORE)
        with m.If(status != idle):
            m.d.comb += Assume((channel.status == status) & (channel.engine == engine))  # they stay
        instruction = channel.completed.store
        for kind in engines:
            instruction = Mux(engine == kind, channel.completed[kind.name.lower()], instruction)
        with m.If(status != idle):
            m.d.sync += [fault["status"].eq(status), fault["engine"].eq(engine), fault["instruction"].eq(instruction)]
    statuses = [channel.status for channel in (unit.channels[n] for n in range(_CHANNELS))]
    any_fault = Signal()
    m.d.sync += any_fault.eq(sum(status != idle for status in statuses) != 0)
    m.d.sync += nothing.eq(~any_fault)
    same = [unit.fault[name] == fault[name] for name in fault]
    m.d.comb += [
        Assert(nothing == (unit.fault.status == idle)),
        Assert(nothing | (same[0] & same[1] & same[2])),
        Cover((unit.fault.status == 5) & (unit.fault.engine == 3) & (unit.fault.instruction == 2)),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.machine.faults", old, new, survives)


PROOFS = [
    Proof(
        name="Faults",
        build=faults,
        claim="two cycles after a status shows, the first channel's status, engine and count are given, and stay",
        method=induction(6),
        reach=8,
        small=(
            Change("etalstm_hw.machine.faults", "_CHUNK = 8", "_CHUNK = 2"),
            Change("etalstm_hw.contract.fields", "COMPLETED_BITS = 32", "COMPLETED_BITS = 2"),
            Change("etalstm_hw.contract.fields", "TARGET_BITS = 20", "TARGET_BITS = 2"),
        ),
        mutants=(
            _mutant("for number in reversed(range(start", "for number in (range(start"),
            _mutant("for first in reversed(firsts):", "for first in firsts:"),
            _mutant("min(start + _CHUNK, self._channels)", "min(start + _CHUNK, self._channels - 1)"),
            _mutant(
                'first["status"].eq(Status.IDLE)', 'first["status"].eq(first["status"])', "a channel's status stays"
            ),
            _mutant("channel.completed[kind.name.lower()]", "channel.completed.load"),
            _mutant("engine.eq(channel.engine)", "engine.eq(engine)"),
            _mutant("with m.If(status != Status.IDLE):", "with m.If(channel.status != Status.IDLE):"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
