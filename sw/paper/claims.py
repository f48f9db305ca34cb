"""The claims of "η-LSTM" (ISCA 2021) beside what comes out here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from etalstm.paper.cases import (
    BASELINE,
    BASELINES,
    CASES,
    COMBINE,
    CUDNN,
    DYNAMIC,
    ETA,
    ETA_PAPER,
    FRAMEWORK,
    Row,
    find_row,
)
from etalstm.paper.requests import BOARDS
from etalstm.paper.values import Value, together

Measured = Callable[[Sequence[Row]], dict[str, Value]]
"""Gives the value of each benchmark, from all rows."""


@dataclass(frozen=True)
class Claim:
    """A claim, by what is claimed, with the average and the best that the source paper gives.

    Members
    -------
    name, unit : str
    average : float
    best : float or None
    quantity : str
        ``speed``, ``energy``, ``movement`` or ``footprint``.
    case : str
    kind : str
        Of bytes, where one kind is meant.
    why : str
        What decides whether it is reached.
    """

    name: str
    unit: str
    average: float
    best: float | None
    quantity: str
    case: str
    kind: str = ""
    why: str = ""


_PEAK = "Four boards have 2.56 TFLOP/s at 250 MHz, the V100 has 15.7."
_BY_MAKING = "The implied baseline is made from this very claim, so it says nothing new; our PEs idle in a few cycles."
_LAUNCHES = "MS2 leaves cells out; MS1 saves bytes that are few beside those of the weights."
CLAIMS = (
    Claim("speed, η-LSTM over the GPU", "×", 3.99, 5.73, "speed", ETA,
          why=f"{_PEAK} Skipping makes up for it against the implied baseline, not against tuned software."),
    Claim("energy, η-LSTM over the GPU", "×", 2.75, 4.25, "energy", ETA,
          why="A board is slower and takes a tenth of the power. The estimated static power of a board decides."),
    Claim("speed, software only (Combine-MS on the GPU)", "×", 1.56, 1.79, "speed", COMBINE, why=_LAUNCHES),
    Claim("energy, software only (Combine-MS on the GPU)", "×", 1.54, 1.78, "energy", COMBINE,
          why="The GPU's power is taken to be the same, so the ratio is that of the speed."),
    Claim("speed, hardware only (Dyn-Arch)", "×", 1.42, 1.85, "speed", DYNAMIC, why=f"{_BY_MAKING} {_PEAK}"),
    Claim("energy, hardware only (Dyn-Arch)", "×", 1.67, 2.69, "energy", DYNAMIC,
          why="Without skipping a board works several times as long, at the same static power."),
    Claim("data movement cut, weights", "%", 40.85, None, "movement", ETA, "weights",
          "bfloat16 halves them; rows that no δ needs are left out."),
    Claim("data movement cut, activations", "%", 32.89, None, "movement", ETA, "activations",
          "With delta inputs sums, v̂ and differences move, too; see the movement by kind."),
    Claim("data movement cut, intermediates", "%", 80.04, None, "movement", ETA, "intermediates",
          "Streams of local gradients in bfloat16 in the place of five dense tensors; no cells are skipped."),
    Claim("memory footprint cut", "%", 57.52, 75.75, "footprint", ETA,
          why="Each group of channels holds the weights twice, by rows and by columns; streams save intermediates."),
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """What comes out for a claim in one setting.

    Members
    -------
    setting : str
    average, best : Value
    reached : bool
        The average is at least the claimed one.
    """

    setting: str
    average: Value
    best: Value
    reached: bool


def findings(claim: Claim, rows: Sequence[Row]) -> list[Finding]:
    """Set a claim beside our rows, in each setting in which it can be asked: baselines, and numbers of boards.

    What the source paper sets bytes beside is not public to us. So they are set beside three things.
    """
    if claim.quantity in ("movement", "footprint"):
        return [_finding(claim, setting, _cuts(claim, rows, ours, theirs)) for setting, ours, theirs in BYTES_BESIDE]
    found = []
    for case in (ETA, ETA_PAPER) if claim.case == ETA else (claim.case,):
        for kind in (CUDNN, FRAMEWORK):
            for boards in (0,) if case == COMBINE else BOARDS:
                setting = f"{boards_text(boards)} over {BASELINE_NAMES[kind]}{_means(case)}"
                found.append(_finding(claim, setting, _ratios(claim, case, rows, kind, boards)))
    return found


def _means(case: str) -> str:
    return f" ({CASES[case].partition(', ')[2]})" if ", " in CASES[case] else ""


Place = tuple[str, int, str]
"""Case, number of boards, kind of GPU software: with a benchmark they name a row."""

BYTES_BESIDE: tuple[tuple[str, Place, Place], ...] = (
    ("one board over Dyn-Arch on one board (MS1 and MS2)", (ETA_PAPER, 1, ""), (DYNAMIC, 1, "")),
    ("one board over Dyn-Arch on one board (all means)", (ETA, 1, ""), (DYNAMIC, 1, "")),
    ("Combine-MS over the baseline, both on the GPU", (COMBINE, 0, CUDNN), (BASELINE, 0, CUDNN)),
    ("one board over the GPU baseline (all means)", (ETA, 1, ""), (BASELINE, 0, CUDNN)),
)

BASELINE_NAMES = dict(zip(BASELINES, ("tuned cuDNN", "the implied framework"), strict=True))


def boards_text(boards: int) -> str:
    """Say how many boards; 0 is the GPU."""
    return {0: "GPU", 1: "one board"}.get(boards, f"{boards} boards")


def mean(values: Sequence[Value]) -> Value:
    """Give the mean of values of one unit; of bands the mean of their ends, which is wider than the mean's own."""
    banded = all(value.low is not None for value in values)
    how, count = together(*(value.how for value in values)), len(values)
    ends = [sum(getattr(value, end) for value in values) / count for end in ("low", "high")] if banded else [None] * 2
    return Value(sum(value.value for value in values) / count, values[0].unit, how, *ends)


def _finding(claim: Claim, setting: str, values: Sequence[Value]) -> Finding:
    average = mean(values)
    return Finding(setting, average, max(values, key=lambda one: one.value), average.value >= claim.average)


def _ratios(claim: Claim, case: str, rows: Sequence[Row], kind: str, boards: int) -> list[Value]:
    chosen = [row for row in rows if row.case == case and row.boards == boards]
    return [getattr(row, claim.quantity)[kind] for row in chosen if kind in getattr(row, claim.quantity)]


def _cuts(claim: Claim, rows: Sequence[Row], ours: Place, theirs: Place) -> list[Value]:
    """Give by how many percent fewer bytes there are in one case than in another."""
    found = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        one, other = (find_row(rows, benchmark, *place) for place in (ours, theirs))
        how = together(*(value.how for row in (one, other) for value in row.moved.values()))
        found.append(Value(100 * (1 - _amount(claim, one) / _amount(claim, other)), "%", how))
    return found


def _amount(claim: Claim, row: Row) -> float:
    if claim.quantity == "movement":
        return row.moved[claim.kind].value
    return sum(value.value for value in row.footprint.values())
