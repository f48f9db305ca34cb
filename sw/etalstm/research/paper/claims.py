"""The claims of "η-LSTM" (ISCA 2021) beside our results."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from etalstm.research.paper import cases
from etalstm.research.paper.cases import COMBINE, CUDNN, DYNAMIC, ETA, ETA_PAPER, Row, Value, find_row, together
from etalstm.research.paper.requests import BOARDS


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim: a quantity, with the average and the best value that the source paper gives."""

    name: str
    unit: str
    average: float
    best: float | None = None
    quantity: str  # ``speed``, ``energy``, ``movement`` or ``footprint``
    case: str
    kind: str = ""  # of bytes, where one kind is meant
    why: str = ""  # what decides whether it is reached
    change: str = ""  # what would bring ours nearer to theirs


_FILE = Path(__file__).with_name("claims.toml")
CLAIMS = tuple(Claim(**one) for one in tomllib.loads(_FILE.read_text(encoding="utf-8"))["claims"])


@dataclass(frozen=True)
class Finding:
    """Our result for a claim in one setting. The claim is reached if its average is at most ours."""

    setting: str
    average: Value
    best: Value
    reached: bool


def findings(claim: Claim, rows: Sequence[Row]) -> list[Finding]:
    """Compare a claim with our rows, over each baseline and on each number of boards.

    Which bytes the source paper compares its own with is not public to us. So ours are compared with those of several
    machines, :data:`BYTES_BESIDE`.
    """
    if claim.quantity in ("movement", "footprint"):
        return [_finding(claim, setting, _cuts(claim, rows, ours, theirs)) for setting, ours, theirs in BYTES_BESIDE]
    found = []
    for case in (ETA, ETA_PAPER) if claim.case == ETA else (claim.case,):
        for kind in (CUDNN, cases.FRAMEWORK):
            for boards in (0,) if case == COMBINE else BOARDS:
                setting = f"{boards_text(boards)} over {BASELINE_NAMES[kind]}{_means_text(case)}"
                found.append(_finding(claim, setting, _ratios(claim, case, rows, kind, boards)))
    return found


def _means_text(case: str) -> str:
    return f" ({cases.CASES[case].partition(', ')[2]})" if ", " in cases.CASES[case] else ""


Key = tuple[str, int, str]  # case, number of boards, kind of GPU software: with a benchmark they name a row

BYTES_BESIDE: tuple[tuple[str, Key, Key], ...] = (
    ("one board over Dyn-Arch on one board (MS1 and MS2)", (ETA_PAPER, 1, ""), (DYNAMIC, 1, "")),
    ("one board over Dyn-Arch on one board (all means)", (ETA, 1, ""), (DYNAMIC, 1, "")),
    ("Combine-MS over the baseline, both on the GPU", (COMBINE, 0, CUDNN), (cases.BASELINE, 0, CUDNN)),
    ("one board over the GPU baseline (all means)", (ETA, 1, ""), (cases.BASELINE, 0, CUDNN)),
)

BASELINE_NAMES = dict(zip(cases.BASELINES, ("tuned cuDNN", "the implied framework"), strict=True))


def boards_text(boards: int) -> str:
    """Say how many boards; 0 is the GPU."""
    return {0: "GPU", 1: "one board"}.get(boards, f"{boards} boards")


def mean(values: Sequence[Value]) -> Value:
    """Give the mean of values of one unit; of bands the mean of their ends, which is wider than the mean's own."""
    how, count = together(*(value.how for value in values)), len(values)
    centre = sum(value.value for value in values) / count
    if any(value.low is None for value in values):
        return Value(centre, values[0].unit, how)
    low, high = (sum(ends) / count for ends in zip(*(value.band for value in values), strict=True))
    return Value(centre, values[0].unit, how, low, high)


def _finding(claim: Claim, setting: str, values: Sequence[Value]) -> Finding:
    average = mean(values)
    return Finding(setting, average, max(values, key=lambda one: one.value), average.value >= claim.average)


def _ratios(claim: Claim, case: str, rows: Sequence[Row], kind: str, boards: int) -> list[Value]:
    chosen = [row for row in rows if row.case == case and row.boards == boards]
    return [getattr(row, claim.quantity)[kind] for row in chosen if kind in getattr(row, claim.quantity)]


def _cuts(claim: Claim, rows: Sequence[Row], ours: Key, theirs: Key) -> list[Value]:
    """Give by how many percent fewer bytes there are in one case than in another."""
    found = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        one, other = (find_row(rows, benchmark, *key) for key in (ours, theirs))
        how = together(*(value.how for row in (one, other) for value in row.moved.values()))
        found.append(Value(100 * (1 - _amount(claim, one) / _amount(claim, other)), "%", how))
    return found


def _amount(claim: Claim, row: Row) -> float:
    if claim.quantity == "movement":
        return row.moved[claim.kind].value
    return sum(value.value for value in row.footprint.values())
