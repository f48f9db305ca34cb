"""Reads Verilator's counts of toggles: which bits of the control logic both rose and fell."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from etalstm_hw.config import PRESETS
from etalstm_sim.compiled.library import design
from etalstm_sim.compiled.observed import MODULE_TEXT, is_left_out
from etalstm_sim.trials.coverage.constants import constant_bits
from etalstm_sim.trials.coverage.excuses import excuse, signal_of

_POINT = re.compile(r"C '(?P<keys>.*)' (?P<count>\d+)")
_PAGE = "v_toggle/"
_INSTANCE = re.compile(r"\$\d+(?=\.|$)")  # Yosys numbers some modules
_ESCAPE = re.compile(r"__0([0-9A-Fa-f]{2})")
Toggles = dict[str, dict[str, tuple[int, int]]]
"""By module and bit, how often it rose and fell."""
RISES, FALLS = "0->1", "1->0"
CONSTANT = "the Verilog ties it to a constant"


@dataclass(frozen=True)
class ModuleToggles:
    """The bits of a module, those of all its instances together.

    Members
    -------
    module : str
    bits : int
        Those that count.
    untoggled : tuple of str
        Those of them that have not gone both ways in any instance, as ``signal`` or ``signal[bit]``.
    excused : dict from a bit to a reason
        Those that did not, and cannot.
    """

    module: str
    bits: int
    untoggled: tuple[str, ...]
    excused: dict[str, str]

    @property
    def share(self) -> float:
        """Share of the counted bits that have toggled both ways."""
        return 1 - len(self.untoggled) / max(self.bits, 1)


def read_toggles(path: Path) -> Toggles:
    """Read what :meth:`etalstm_sim.simulation.Simulation.write_coverage` has written.

    Raises
    ------
    ValueError
        If a line is no count of a toggle.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[1:], 2):
        point = _POINT.fullmatch(line)
        if point is None:
            raise ValueError(f"{path}, line {number}: expected a count of Verilator's, got {line!r}")
        keys = dict(pair.split("\x02", 1) for pair in point["keys"].split("\x01")[1:])
        bit, _, direction = keys["o"].rpartition(":")
        if direction not in (RISES, FALLS) or not keys["page"].startswith(_PAGE):
            raise ValueError(f"{path}, line {number}: expected the count of a toggle, got {line!r}")
        counts[_module(keys["page"]), _decoded(bit), direction] += int(point["count"])
    found: Toggles = {}
    for module, bit, _ in counts:
        found.setdefault(module, {})[bit] = counts[module, bit, RISES], counts[module, bit, FALLS]
    return {module: _without_structures(bits) for module, bits in found.items()}


def add_toggles(one: Toggles, other: Toggles) -> Toggles:
    """Add up the counts of two machines."""
    found = {module: dict(bits) for module, bits in one.items()}
    for module, bits in other.items():
        counts = found.setdefault(module, {})
        for bit, (rises, falls) in bits.items():
            before = counts.get(bit, (0, 0))
            counts[bit] = before[0] + rises, before[1] + falls
    return found


def control_modules(preset: str) -> list[str]:
    """Name the modules of a preset whose toggles are counted."""
    verilog = design(PRESETS[preset], apart=False).verilog
    names = (match[1].removeprefix("\\") for match in MODULE_TEXT.finditer(verilog))
    return sorted({_module(name) for name in names if not is_left_out(name)})


def module_toggles(toggles: Toggles, preset: str) -> list[ModuleToggles]:
    """Divide the bits of each module into those that have toggled, have not, and cannot.

    Parameters
    ----------
    toggles : Toggles
    preset : str
        Name of the machine's configuration.
    """
    config = PRESETS[preset]
    constants = {_module(name): bits for name, bits in constant_bits(design(config, apart=False).verilog).items()}
    found = []
    for module, bits in sorted(toggles.items()):
        incomplete = [bit for bit, counts in bits.items() if not all(counts)]
        excused = {bit: CONSTANT for bit in incomplete if bit in constants.get(module, ())}
        for bit in incomplete:
            reason = excuse(config, module, bit)
            if reason and bit not in excused:
                excused[bit] = reason
        untoggled = tuple(bit for bit in incomplete if bit not in excused)
        found.append(ModuleToggles(module, len(bits) - len(excused), untoggled, excused))
    return found


def _without_structures(bits: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Leave out signals with fields, because the fields are signals too."""
    structures = {bit.rpartition(".")[0] for bit in bits if "." in bit}
    return {bit: counts for bit, counts in bits.items() if signal_of(bit)[0] not in structures}


def _module(page: str) -> str:
    return _INSTANCE.sub("", _decoded(page.removeprefix(_PAGE)))


def _decoded(name: str) -> str:
    """Give the Verilog name of a name that Verilator has encoded for C++."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
