"""Groups of channels: which channels always stay together, and where each is in its group."""

from itertools import pairwise

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.config import Config
from etalstm_hw.machine.settings import QUASI_STATIC
from etalstm_hw.machine.tree import FAN_OUT
from etalstm_hw.stream import Group


def branches(config: Config) -> list[range]:
    """Divide the channels into runs of at most ``FAN_OUT`` that lie in one group, however many groups there are."""
    channels = config.channels
    borders = {group * channels // count for count in config.group_counts for group in range(count + 1)}
    runs = []
    for start, stop in pairwise(sorted(borders)):
        count = -(-(stop - start) // FAN_OUT)
        cuts = [start + n * (stop - start) // count for n in range(count + 1)]
        runs += [range(*cut) for cut in pairwise(cuts)]
    return runs


def feeders(config: Config, channel: int) -> list[int]:
    """Give the groups that a channel can lie in, and so the broadcasters that can feed it, in ascending order."""
    return sorted({channel * count // config.channels for count in config.group_counts})


def path_of(config: Config, channel: int) -> str:
    """Give the location of a channel in the hierarchy of instances below :class:`etalstm_hw.machine.top.Top`."""
    for number, run in enumerate(branches(config)):
        if channel in run:
            return f"branch{number}/channel{channel - run.start}"
    raise ValueError(f"channel must be 0 to {config.channels - 1}, got {channel}")


class Groups(wiring.Component):
    """Says where branches and broadcasters are among the groups that the host has asked for.

    Everything follows within 3 cycles. Without ``valid`` it is what it was.

    Parameters
    ----------
    config : Config

    Members
    -------
    count : :py:`In(32)`            ``Register.GROUPS``
    stride : :py:`In`               bytes from the window of one channel to that of the next
    valid : :py:`Out(1)`            the channels can be divided into so many groups
    branches : :py:`Out`            a :class:`Group` for each of :func:`branches`, its ``position`` the first channel's
    broadcasters : :py:`Out`        one for each broadcaster; of those beyond the last group it means nothing
    active : :py:`Out`              a bit for each broadcaster that has a group
    """

    def __init__(self, config: Config):
        self._config, self._starts = config, [run.start for run in branches(config)]
        group = Group(config.address_bits)
        super().__init__(
            {
                "count": In(32),
                "stride": In(config.address_bits),
                "valid": Out(1),
                "branches": Out(data.ArrayLayout(group, len(self._starts))),
                "broadcasters": Out(data.ArrayLayout(group, config.broadcasters)),
                "active": Out(config.broadcasters, init=1),
            }
        )

    def elaborate(self, platform):
        """A table for each count that there can be; one product, of what is the same for all."""
        m = Module()
        channels, broadcasters = self._config.channels, self._config.broadcasters
        registers = {}
        for name in ("branches", "broadcasters"):
            output = getattr(self, name)
            registers[name] = Signal(output.shape(), name=f"{name}_now", attrs=QUASI_STATIC)
            m.d.comb += output.eq(registers[name])
        size, pitch = Signal.like(self.branches[0].size), Signal.like(self.branches[0].pitch)
        m.d.sync += [self.valid.eq(0), pitch.eq(size * self.stride)]
        with m.Switch(self.count):
            for count in self._config.group_counts:
                with m.Case(*((0, 1) if count == 1 else (count,))):
                    own_size = channels // count
                    m.d.sync += [self.valid.eq(1), size.eq(own_size), self.active.eq((1 << count) - 1)]
                    for number, start in enumerate(self._starts):
                        self._set_group(m, registers["branches"][number], count, start // own_size, start % own_size)
                    for number in range(min(count, broadcasters)):
                        self._set_group(m, registers["broadcasters"][number], count, number, 0)
        m.d.sync += [group.pitch.eq(pitch) for groups in registers.values() for group in groups]
        return m

    def _set_group(self, m, member, count, number, position):
        """Set one of the registers to a group, of so many, and a channel's position in it."""
        size = self._config.channels // count
        values = {"position": position, "number": number, "first": number * size, "size": size, "count": count}
        m.d.sync += [member[name].eq(value) for name, value in values.items()]
