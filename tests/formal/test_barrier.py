"""StoreBarrier: counts what every channel has completed, and no lead overflows."""

from amaranth.hdl import Assert, Assume, Cover, Signal

from tests.formal.harness import bench
from tests.formal.prove import Change, Mutant, Proof, pdr

_CHANNELS, _AHEAD = 3, 3


def store_barrier(load):
    """Count the completions of the slowest channel.

    A channel completes more than another only what the other's queue and engine hold, and a place there becomes free no
    sooner than a cycle after the completion. Three channels with leads of 2 bits: each lead has a counter of its own,
    and 3 is the highest that fits in its bits, as no other lead would tell an overflow.
    """
    unit = load("etalstm_hw.machine.barrier").StoreBarrier(_CHANNELS, _AHEAD)
    m = bench(unit)
    ahead = [Signal(range(_AHEAD + 2), name=f"ahead{n}") for n in range(_CHANNELS)]
    total, late = Signal.like(unit.count), Signal.like(unit.count)
    counted = [Signal.like(one, name=f"counted{n}") for n, one in enumerate(ahead)]
    all_have = Signal()
    m.d.comb += [now.eq(one + done) for now, one, done in zip(counted, ahead, unit.done, strict=True)]
    m.d.comb += [Assume(now <= _AHEAD) for now in counted]
    m.d.comb += all_have.eq((counted[0] != 0) & (counted[1] != 0) & (counted[2] != 0))
    m.d.sync += [one.eq(now - all_have) for one, now in zip(ahead, counted, strict=True)]
    m.d.sync += [total.eq(total + all_have), late.eq(total)]
    m.d.comb += [
        Assert(unit.count == late),
        Cover((ahead[0] == _AHEAD) & (ahead[1] == _AHEAD) & (unit.count == 5)),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.machine.barrier", old, new, survives)


PROOFS = [
    Proof(
        name="StoreBarrier",
        build=store_barrier,
        claim="the count is that of the slowest channel, two cycles late; leads do not overflow",
        method=pdr(),
        reach=16,
        quick=True,
        small=(Change("etalstm_hw.contract.fields", "TARGET_BITS = 20", "TARGET_BITS = 3"),),
        mutants=(
            _mutant("range(self._ahead + 1)", "range(self._ahead - 1)"),
            _mutant("with m.If(lead == 0):", "with m.If(lead == 1):"),
            _mutant("lead + done - all_ahead", "lead + done"),
            _mutant("lead + done - all_ahead", "lead + (done & ~all_ahead) - all_ahead"),
            _mutant("self.count + all_ahead", "self.count + self.done.all()"),
            _mutant("for lead in leads:", "for lead in leads[1:]:"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
