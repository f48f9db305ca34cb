"""Where a plan lies in a machine's memory: its windows, and its programs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from etalstm.plan.memory.memory_map import whole_pages
from etalstm_hw.config import Config


@dataclass(frozen=True)
class Placement:
    """Windows of one size at equal distances, and programs behind or beside them.

    Members
    -------
    channels : int
        Windows there are.
    base, stride, window_bytes : int
        Address of the first window; from one to the next; size of each.
    programs, program_bytes : int
        Address and size of all programs.
    """

    channels: int
    base: int
    stride: int
    window_bytes: int
    programs: int
    program_bytes: int

    def window(self, channel: int) -> range:
        """Give the addresses of a channel's window."""
        start = self.base + channel * self.stride
        return range(start, start + self.window_bytes)

    @property
    def parts(self) -> list[range]:
        """All addresses that are used."""
        windows = [self.window(channel) for channel in range(self.channels)]
        return [*windows, range(self.programs, self.programs + self.program_bytes)]

    @property
    def end(self) -> int:
        """The first page behind all of it."""
        return whole_pages(max(part.stop for part in self.parts))


def region_bytes(extents: Mapping[str, int]) -> int:
    """Bytes from the start of the first of some programs to the end of the last; each begins at a page."""
    *others, last = extents.values()
    return sum(map(whole_pages, others)) + last


def find(size_bytes: int, memory_bytes: int, taken: Sequence[range]) -> range | None:
    """Find the first addresses from a page on that nobody has taken; None if there is no room."""
    starts = sorted({0, *(whole_pages(part.stop) for part in taken)})
    found = (range(start, start + size_bytes) for start in starts if start + size_bytes <= memory_bytes)
    return next((part for part in found if not any(_overlap(part, other) for other in taken)), None)


def place(
    config: Config,
    window_bytes: int,
    program_bytes: int,
    *,
    memory_bytes: int | None = None,
    taken: Sequence[range] = (),
) -> Placement | None:
    """Find room: each window behind the port of its channel, or if it is too large, one window behind the other.

    Behind its own port a channel need not cross the switch between ports and memories, and all memories work however
    small the network is. The windows of the channels that share a port then lie in equal shares of its memory, and
    programs behind the memory of all these ports. Whatever is placed begins at a multiple of 4096.

    Parameters
    ----------
    config : Config
    window_bytes, program_bytes : int
        Size of a window, a multiple of 4096, and of all programs.
    memory_bytes : int, optional
        Size of the memory; default: any.
    taken : ranges
        Addresses that are in use.

    Returns
    -------
    Placement, or None if there is no room
    """

    def made(base: int, stride: int, programs: int) -> Placement:
        return Placement(config.channels, base, stride, window_bytes, programs, program_bytes)

    def fits(placement: Placement) -> bool:
        inside = memory_bytes is None or max(part.stop for part in placement.parts) <= memory_bytes
        return inside and not any(_overlap(part, other) for part in placement.parts for other in taken)

    ends = [0, *sorted(whole_pages(part.stop) for part in taken)]
    share = config.share_bytes
    behind = config.channels * share
    bases = sorted({end % share for end in ends if end % share + window_bytes <= share}) if share else []
    programs = [behind, *(end for end in ends if end > behind)]
    spread = (made(base, share, program) for base in bases for program in programs)
    dense = (made(end, window_bytes, end + config.channels * window_bytes) for end in ends)
    return _first(fits, spread) or _first(fits, dense)


def _first(fits: Callable[[Placement], bool], placements: Iterable[Placement]) -> Placement | None:
    return next(filter(fits, placements), None)


def _overlap(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)
