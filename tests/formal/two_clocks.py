"""Two clocks in one proof: in each step of the solver either of them ticks, or both, or none."""

from amaranth.asserts import AnySeq
from amaranth.hdl import (
    Assume,
    Cat,
    ClockDomain,
    ClockSignal,
    EnableInserter,
    Fragment,
    Module,
    Mux,
    ResetSignal,
    Signal,
)

_SYNCHRONIZER = 2  # registers of a synchronizer


class TwoClocks:
    """Two clock domains whose ticks the solver chooses, each with a reset that the solver chooses too.

    The class stands in for the platform, so that synchronizers are made here. The first register of a synchronizer is
    uncertain: of each bit that changed in the step before, the register may still see the old value.

    Members
    -------
    ticks, resets : a signal for each domain
    """

    def __init__(self, m: Module, *names: str):
        self.ticks = {name: Signal(name=f"{name}_ticks") for name in names}
        self.resets = {name: Signal(name=f"{name}_reset") for name in names}
        m.d.comb += Assume(~ResetSignal())  # steps have no reset
        for name in names:
            m.domains += ClockDomain(name)
            m.d.comb += [
                self.ticks[name].eq(AnySeq(1)),
                self.resets[name].eq(AnySeq(1)),
                ClockSignal(name).eq(ClockSignal()),
                ResetSignal(name).eq(self.resets[name] & self.ticks[name]),
            ]
            waits, before = Signal(name=f"{name}_waits"), Signal(name=f"{name}_reset_before")
            m.d.sync += [waits.eq(~self.ticks[name]), before.eq(self.resets[name])]
            m.d.comb += Assume(~waits | (self.resets[name] == before))  # it comes from a register of its domain

    def add(self, m: Module, unit) -> None:
        """Put a component with these domains into the specification."""
        m.submodules.unit = Fragment.get(EnableInserter(self.ticks)(unit), self)

    def get_ff_sync(self, synchronizer) -> Module:
        """Make a synchronizer of a signal."""
        m = Module()
        now, tick = synchronizer.i, self.ticks[synchronizer._o_domain]
        before, seen, *stages = (Signal.like(now, name=f"stage{n}") for n in range(_SYNCHRONIZER + 1))
        late = Signal.like(now, name="late")
        m.d.comb += [late.eq(AnySeq(len(now))), synchronizer.o.eq(stages[-1])]
        m.d.sync += before.eq(now)
        with m.If(tick):
            m.d.sync += [seen.eq((before & late) | (now & ~late)), stages[0].eq(seen)]
        return m

    def get_async_ff_sync(self, synchronizer) -> Module:
        """Make a synchronizer of the other domain's reset: it rises at once, and falls some ticks later."""
        m = Module()
        (asks,) = (reset for name, reset in self.resets.items() if name != synchronizer._o_domain)
        stages = Signal(_SYNCHRONIZER, init=-1)
        with m.If(asks):
            m.d.sync += stages.eq(-1)
        with m.Elif(self.ticks[synchronizer._o_domain]):
            m.d.sync += stages.eq(Cat(0, stages[:-1]))
        m.d.comb += synchronizer.o.eq(Mux(asks, 1, stages[-1]))
        return m
