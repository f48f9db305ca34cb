"""Counts the resources of a design, unit by unit."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from fractions import Fraction

from etalstm_boards.part import Resources
from etalstm_boards.resources.count import count
from etalstm_boards.resources.depth import Path, Timing, timing
from etalstm_boards.resources.packing import pairs
from etalstm_boards.resources.step import BY_DELAY, BY_LEVELS, Order
from etalstm_boards.resources.synthesis import Netlist, synthesise
from etalstm_boards.resources.units import Hierarchy, Unit


@dataclass(frozen=True)
class Row:
    """A unit of the design.

    Members
    -------
    name : the module
    instances : of it in the design
    each : resources of one instance, without the units that it uses; LUTs are paired if they fit
    unpaired : LUTs of one instance without pairing: an upper bound
    deepest : the path with most levels that ends in it or meets in it; none if it has no logic between registers
    slowest : likewise the path with the longest estimated delay
    memories : for each memory the primitive that it is mapped to, in one instance
    """

    name: str
    instances: int
    each: Resources
    unpaired: int | Fraction
    deepest: Path | None
    slowest: Path | None
    memories: Mapping[str, str]

    @property
    def total(self) -> Resources:
        """Resources of all instances."""
        return self.each * self.instances


@dataclass(frozen=True)
class Report:
    """The resources of a design by unit, the unit with most LUTs first."""

    rows: list[Row]

    @property
    def total(self) -> Resources:
        """Resources of the design."""
        return sum((row.total for row in self.rows), Resources())

    @property
    def unpaired(self) -> int | Fraction:
        """LUTs of the design without pairing."""
        return sum(row.unpaired * row.instances for row in self.rows)

    @property
    def deepest(self) -> Row:
        """The row with the path that has most levels."""
        return max(self.rows, key=lambda row: row.deepest.levels if row.deepest else -1)

    @property
    def by_delay(self) -> list[tuple[Row, Path]]:
        """The rows that have a path, each with its slowest one, the slowest of all first."""
        found = [(row, row.slowest) for row in self.rows if row.slowest]
        return sorted(found, key=lambda pair: -pair[1].delay_ns)


def report(verilog: str, top: str, progress: Callable[[str], None] = lambda _: None) -> Report:
    """Synthesise every unit of a design once, on all cores, and multiply by its instances.

    Parameters
    ----------
    verilog : str
        The result of :func:`etalstm_hw.generate.verilog`.
    top : str
        The outermost module.
    progress : function
        Called with the name of each unit before it is synthesised, by several threads.

    Raises
    ------
    SynthesisError
        If there is no Yosys, or it fails.
    """
    units = Hierarchy(verilog, top).units()
    instances = _instances(units)
    netlists = _synthesise(units, progress)
    rows: list[Row] = []
    timings: dict[Order, dict[str, Timing]] = {BY_LEVELS: {}, BY_DELAY: {}}
    for key, unit in units.items():
        netlist = netlists[key]
        last = key == next(reversed(units))
        for order, found in timings.items():
            stubs = {stub: (found[child], units[child].name, ports) for stub, (child, ports) in unit.stubs.items()}
            found[key] = timing(netlist, unit.ports, stubs, order, outermost=last)
        deepest, slowest = (found[key].worst for found in timings.values())
        alone = count(netlist.cells, unit.stubs)
        each = replace(alone, lut=alone.lut - pairs(netlist.cells))
        rows.append(Row(unit.name, instances[key], each, alone.lut, deepest, slowest, netlist.memories))
    return Report(sorted(rows, key=lambda row: -row.total.lut))


def _synthesise(units: Mapping[str, Unit], progress: Callable[[str], None]) -> dict[str, Netlist]:
    """Give the netlist of each unit. The largest are begun first; the first failure cancels the others."""

    def build(unit: Unit) -> Netlist:
        progress(unit.name)
        return synthesise(unit)

    order = sorted(units, key=lambda key: -len(units[key].text))
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Yosys is a process of its own, so threads suffice
        netlists = {pool.submit(build, units[key]): key for key in order}
        try:
            return {netlists[netlist]: netlist.result() for netlist in as_completed(netlists)}
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _instances(units: dict[str, Unit]) -> Counter[str]:
    """Count the instances of each unit in the outermost unit, which is the last one."""
    counts = Counter({next(reversed(units)): 1})
    for key, unit in reversed(units.items()):
        for child, times in unit.uses.items():
            counts[child] += counts[key] * times
    return counts
