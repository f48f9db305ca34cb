"""What a path passes: its logic as levels and as a delay.

One level is one LUT, one carry chain or a third of a multiplier. It takes about 0.5 ns with the net before it:

- A LUT takes 0.09 ns, a net 0.3 to 0.6 ns.
- A carry chain counts once, whatever its length. Entry and exit take 0.3 ns, and 32 bits between them 0.2 ns.
- A multiplier counts as three; it takes 0.9 ns. The adder of a DSP slice is a carry chain. So a DSP slice without
  registers has four levels; it takes 1.6 ns, and the net to it.
- The multiplexers behind the LUTs of a slice do not count, as there is no net to them. They have a delay.
"""

from typing import NamedTuple

LEVELS_OF_MULTIPLIER = 3

_BITS_OF_COUNT, _BITS_OF_LEVELS, _BITS_OF_PS = 10, 12, 24


class Step(NamedTuple):
    """The logic of one primitive, or of several one after the other.

    Members
    -------
    ps : delay, picoseconds
    luts, chains, multipliers : number of each
    """

    ps: int = 0
    luts: int = 0
    chains: int = 0
    multipliers: int = 0

    @property
    def levels(self) -> int:
        """LUTs, carry chains and multipliers in one number."""
        return self.luts + self.chains + LEVELS_OF_MULTIPLIER * self.multipliers

    def later(self, ps: int) -> "Step":
        """Give the same logic with a longer delay."""
        return self._replace(ps=self.ps + ps)


class Order(NamedTuple):
    """Which of two paths is worse: the one with more levels, or the one with more delay.

    A weight is a step as one number. Weights are added as steps are, and the worse step has the larger weight.
    """

    by_delay: bool

    def weight(self, step: Step) -> int:
        """Give a step's weight."""
        delay_first, levels_first = step.ps << _BITS_OF_LEVELS | step.levels, step.levels << _BITS_OF_PS | step.ps
        weight = delay_first if self.by_delay else levels_first
        for number in (step.luts, step.chains, step.multipliers):
            weight = weight << _BITS_OF_COUNT | number
        return weight

    def step(self, weight: int) -> Step:
        """Give the step of a weight."""
        counts = []
        for _ in range(3):
            weight, count = divmod(weight, 1 << _BITS_OF_COUNT)
            counts.append(count)
        ps = weight >> _BITS_OF_LEVELS if self.by_delay else weight % (1 << _BITS_OF_PS)
        return Step(ps, *reversed(counts))


BY_LEVELS, BY_DELAY = Order(False), Order(True)
