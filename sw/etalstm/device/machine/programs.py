"""Programs in a machine's memory: which there are, and where they lie."""

from collections.abc import Callable, Mapping
from itertools import accumulate

from etalstm.device.machine.accelerator import Accelerator, LoadedProgram
from etalstm.plan.memory.memory_map import region_bytes, whole_pages
from etalstm.plan.plan import Plan
from etalstm.plan.program.program import Program

ROOMIER = 1.5  # room for other programs of the same name, over the bytes of the first
MOST_REGIONS = 64  # numbers of steps whose programs are in memory at once

Find = Callable[[int], range | None]
"""Finds memory that nobody uses, from its bytes; None if there is none."""


class ProgramRegion:
    """Memory for some programs, from `address` on: `sizes` has for each program's name the bytes that it may take."""

    def __init__(self, accelerator: Accelerator, address: int, sizes: Mapping[str, int]):
        self._accelerator, self._sizes = accelerator, sizes
        offsets = accumulate(map(whole_pages, sizes.values()), initial=0)
        self._addresses = {name: address + offset for name, offset in zip(sizes, offsets, strict=False)}
        self.address, self.size_bytes = address, region_bytes(sizes)
        self.programs: dict[str, Program] = {}
        self._loaded: dict[str, LoadedProgram] = {}

    @property
    def addresses(self) -> range:
        """What it takes of the memory."""
        return range(self.address, self.address + self.size_bytes)

    def __getitem__(self, name: str) -> LoadedProgram:
        return self._loaded[name]

    def too_long(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """Give those of some programs that have no room."""
        return {name: program for name, program in programs.items() if program.bytes > self._sizes[name]}

    def put(self, programs: Mapping[str, Program]) -> None:
        """Have some programs there, in the place of others of their names; those that are there stay as they are."""
        for name, program in programs.items():
            if program is not self.programs.get(name):
                self._loaded[name] = self._accelerator.load(program.image(), self._addresses[name])
                self.programs[name] = program


def roomy(programs: Mapping[str, Program]) -> dict[str, int]:
    """Give the room that some programs, and others of their names, are given."""
    return {name: int(ROOMIER * program.bytes) for name, program in programs.items()}


class ProgramMemory:
    """The programs of a session.

    Those of its plan have the memory that the plan gives them. Passes of fewer steps have a region for each number of
    steps, beside the plan's memory. A region is made when it is first needed. Where there is no memory for another, the
    one that was not used for the longest time goes; where there is none at all, such passes take the place of the
    plan's. `budget` limits the bytes that the plan and all regions take together.
    """

    def __init__(self, accelerator: Accelerator, find: Find, budget: int | None):
        self._accelerator, self._find_anywhere, self._budget = accelerator, find, budget
        self._regions: dict[int, ProgramRegion] = {}  # by number of steps, the one that was used last at the end

    @property
    def beside(self) -> list[range]:
        """What is used of the memory besides the plan's."""
        return [region.addresses for region in self._regions.values()]

    @property
    def bytes_beside(self) -> int:
        """Size of all of that."""
        return sum(map(len, self.beside))

    def leave(self) -> None:
        """Forget the regions: another plan follows, whose addresses are not known yet."""
        self._regions.clear()

    def adopt(self, plan: Plan, address: int) -> None:
        """Write the programs of a plan, the first of them to an address."""
        self._plan = plan
        self._own = self._present = ProgramRegion(self._accelerator, address, plan.program_extents)
        self._own.put(plan.programs)

    def bring(self, steps: int, programs: Mapping[str, Program]) -> dict[str, Program]:
        """Have the programs of passes of so many steps in memory; give those without room, then none is brought."""
        region = (self._region(steps, programs) if steps < self._plan.map.steps else None) or self._own
        longer = region.too_long(programs)
        if not longer:
            self._present = region
            region.put(programs)
        return longer

    def __getitem__(self, name: str) -> tuple[Program, LoadedProgram]:
        """Give a program by its name: that of the passes that were brought, or the plan's."""
        region = self._present if name in self._present.programs else self._own
        return region.programs[name], region[name]

    def _region(self, steps: int, programs: Mapping[str, Program]) -> ProgramRegion | None:
        """Give the region of a number of steps, with room for some programs; None if there is no memory for it."""
        region = self._regions.pop(steps, None)
        if region is None or region.too_long(programs):
            region = self._made(roomy(programs))
        if region is not None:
            self._regions[steps] = region
        return region

    def _made(self, sizes: dict[str, int]) -> ProgramRegion | None:
        addresses = None if len(self._regions) == MOST_REGIONS else self._find(region_bytes(sizes))
        while addresses is None and self._regions:
            del self._regions[next(iter(self._regions))]
            addresses = self._find(region_bytes(sizes))
        return None if addresses is None else ProgramRegion(self._accelerator, addresses.start, sizes)

    def _find(self, size_bytes: int) -> range | None:
        taken = self._plan.memory_bytes + self.bytes_beside
        if self._budget is not None and taken + size_bytes > self._budget:
            return None
        return self._find_anywhere(size_bytes)
