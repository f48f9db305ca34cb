"""Programs in a machine's memory: which there are, and where they lie."""

from collections.abc import Callable, Mapping
from itertools import accumulate

from etalstm.device.accelerator import Accelerator, LoadedProgram
from etalstm.plan.memory import whole_pages
from etalstm.plan.placement import region_bytes
from etalstm.plan.program import Program

ROOMIER = 1.5  # room for other programs of the same name, over the bytes of the first
MOST_REGIONS = 64  # numbers of steps whose programs are in memory at once

Find = Callable[[int], range | None]
"""Finds memory that nobody uses, from its bytes; None if there is none."""


class ProgramRegion:
    """Memory for some programs, each with a place of its own.

    Parameters
    ----------
    accelerator : Accelerator
    address : int
        Of the first program.
    extents : dict from a program's name to the bytes that it may take

    Members
    -------
    size_bytes : int
    programs : dict from name to Program
        What is there.
    """

    def __init__(self, accelerator: Accelerator, address: int, extents: Mapping[str, int]):
        self._accelerator, self._extents = accelerator, extents
        offsets = accumulate(map(whole_pages, extents.values()), initial=0)
        self._addresses = {name: address + offset for name, offset in zip(extents, offsets, strict=False)}
        self.address, self.size_bytes = address, region_bytes(extents)
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
        return {name: program for name, program in programs.items() if program.bytes > self._extents[name]}

    def put(self, programs: Mapping[str, Program]) -> None:
        """Have some programs there, in the place of others of their names; those that are there stay as they are."""
        for name, program in programs.items():
            if program is not self.programs.get(name):
                self._loaded[name] = self._accelerator.load(program.image(), self._addresses[name])
                self.programs[name] = program


def roomy(programs: Mapping[str, Program]) -> dict[str, int]:
    """Give the room that some programs, and others of their names, are given."""
    return {name: int(ROOMIER * program.bytes) for name, program in programs.items()}


class ProgramRegions:
    """Regions for the programs of passes of fewer steps than a plan's, one for each number of steps.

    They lie beside the plan's memory. They are made when they are first needed, and the one that was not used for the
    longest time goes where there is no room for another.

    Parameters
    ----------
    accelerator : Accelerator
    """

    def __init__(self, accelerator: Accelerator):
        self._accelerator = accelerator
        self._regions: dict[int, ProgramRegion] = {}  # the one that was used last at the end

    @property
    def addresses(self) -> list[range]:
        """What they take of the memory."""
        return [region.addresses for region in self._regions.values()]

    @property
    def size_bytes(self) -> int:
        """Bytes of all regions."""
        return sum(map(len, self.addresses))

    def clear(self) -> None:
        """Forget all regions."""
        self._regions.clear()

    def of(self, steps: int, programs: Mapping[str, Program], find: Find) -> ProgramRegion | None:
        """Give the region of a number of steps, with room for some programs; None if there is no memory for it."""
        region = self._regions.pop(steps, None)
        if region is None or region.too_long(programs):
            region = self._made(roomy(programs), find)
        if region is not None:
            self._regions[steps] = region
        return region

    def _made(self, extents: dict[str, int], find: Find) -> ProgramRegion | None:
        addresses = None if len(self._regions) == MOST_REGIONS else find(region_bytes(extents))
        while addresses is None and self._regions:
            del self._regions[next(iter(self._regions))]
            addresses = find(region_bytes(extents))
        return None if addresses is None else ProgramRegion(self._accelerator, addresses.start, extents)
