"""The energy of a training iteration: counts of events times the energy of an event.

Every coefficient has a low, a nominal and a high value, and its source. Those that nobody has measured for this machine
are marked, and have a wide range. A band comes from drawing all coefficients at random within their ranges.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DRAWS, SEED = 4000, 0
BAND = (5, 95)  # percentiles
_PICO = 1e-12
_OPERANDS = 3  # words that an operation of a PE reads from or writes to the lane's memories
_INTEGER_OPERANDS = 0.5  # words for each multiplication of integers: a byte of weights, and one that is broadcast
_ACTIVATION_OPERATIONS = 4  # an activation is a polynomial: about so many multiplications and additions


@dataclass(frozen=True)
class Coefficient:
    """The energy of an event, or a power.

    Its basis is ``cited``; ``recalled``: cited from memory, not checked; ``estimated``: by us; or ``assumed``.
    """

    name: str
    unit: str
    low: float
    nominal: float
    high: float
    basis: str
    source: str

    @property
    def joules(self) -> float:
        """Joules of an event, for one of the coefficient's unit."""
        return _PICO if self.unit.startswith("pJ") else 1.0


_FILE = Path(__file__).with_name("coefficients.toml")
_READ = tomllib.loads(_FILE.read_text(encoding="utf-8"))
COEFFICIENTS = tuple(Coefficient(**one) for one in _READ["coefficients"])
INTEGER_COEFFICIENTS = tuple(Coefficient(**one) for one in _READ["integers"])  # besides, on the machine of integers
_ALL = (*COEFFICIENTS, *INTEGER_COEFFICIENTS)
_BY_NAME = {one.name: one for one in _ALL}

Events = Mapping[str, float]  # by a coefficient's name, how often it counts; for a power: seconds


def machine_events(
    operations: Mapping[str, int], moved_bytes: float, seconds: float, boards: int = 1, integer_macs: float = 0.0
) -> Events:
    """Count the events of an iteration on our machine; all boards do the same.

    Operations and the bytes moved between memory and machine are of one board: ``mac`` and ``elementwise`` operations
    of the PEs, lanes without an element included, and those of the ``activation`` units. An operation of a PE passes
    its multiplier and its adder. On a machine with ``integer_macs`` its PEs make no ``mac``.
    """
    of_pes = operations["elementwise"] + (0 if integer_macs else operations["mac"])
    passed = of_pes + _ACTIVATION_OPERATIONS * operations["activation"]
    words = _OPERANDS * of_pes + _INTEGER_OPERANDS * integer_macs
    counts = {"hbm": 8 * moved_bytes, "multiply": passed, "add": passed, "lane_word": words}
    counts["integer_mac"] = integer_macs
    return {name: boards * count for name, count in (counts | {"board": seconds}).items()}


def joules(events: Events, values: Mapping[str, float | np.ndarray] | None = None):
    """Give the energy of events. `values` has, of each coefficient, a number or an array of draws; the nominal ones if
    None.
    """
    values = nominal() if values is None else values
    return sum(count * values[name] * _BY_NAME[name].joules for name, count in events.items())


def nominal() -> dict[str, float]:
    """Give every coefficient's nominal value."""
    return {one.name: one.nominal for one in _ALL}


def draw(count: int = DRAWS, seed: int = SEED) -> dict[str, np.ndarray]:
    """Draw every coefficient `count` times: a triangle from low to high with its peak at the nominal value."""
    generator = np.random.default_rng(seed)
    return {one.name: generator.triangular(one.low, one.nominal, one.high, count) for one in _ALL}


def band(values: np.ndarray) -> tuple[float, float]:
    """Give the 5th and the 95th percentile."""
    low, high = np.percentile(values, BAND)
    return float(low), float(high)
