"""The claims of "η-LSTM" (ISCA 2021) beside our results."""

from collections.abc import Sequence
from dataclasses import dataclass

from etalstm.research.paper import cases
from etalstm.research.paper.cases import COMBINE, CUDNN, DYNAMIC, ETA, ETA_PAPER, Row, Value, find_row, together
from etalstm.research.paper.requests import BOARDS


@dataclass(frozen=True)
class Claim:
    """A claim: a quantity, with the average and the best value that the source paper gives."""

    name: str
    unit: str
    average: float
    best: float | None
    quantity: str  # ``speed``, ``energy``, ``movement`` or ``footprint``
    case: str
    kind: str = ""  # of bytes, where one kind is meant
    why: str = ""  # what decides whether it is reached
    change: str = ""  # what would bring ours nearer to theirs


CLAIMS = (
    Claim("speed, η-LSTM over the GPU", "×", 3.99, 5.73, "speed", ETA,
          why="Four boards have a sixth of the V100's peak. Skipping gains most where a sequence has one loss (trec10, "
          "imdb), and least where every step has one (ptb, wmt). With a quarter of the batch on each board a load of "
          "weights serves fewer sequences.",
          change="More sequences on each board: a load of weights serves more of them. Reductions that cost no "
          "accuracy where every step has a loss. Real batches, whose zeros come together. A part with more "
          "multipliers."),
    Claim("energy, η-LSTM over the GPU", "×", 2.75, 4.25, "energy", ETA,
          why="A board takes less power than the GPU, most of it static and estimated. Four boards take their static "
          "power four times, and each loads all weights.",
          change="What makes an iteration shorter, because static power is most of it. Less static power; Vivado's "
          "report of it takes the place of the estimate (eta-lstm hw report --vivado)."),
    Claim("speed, software only (Combine-MS on the GPU)", "×", 1.56, 1.79, "speed", COMBINE,
          why="Nearly all of it is MS2: trec10, imdb and waymo skip two thirds of the cells or more, the others none "
          "at the dense score. MS1 saves bytes that are few beside those of the weights.",
          change="GPU kernels that leave out products with δ's zeros. MS2 for networks with a loss at every step."),
    Claim("energy, software only (Combine-MS on the GPU)", "×", 1.54, 1.78, "energy", COMBINE,
          why="The GPU's power is taken to be the same, so the ratio is that of the speed.",
          change="The same as for speed."),
    Claim("speed, hardware only (Dyn-Arch)", "×", 1.42, 1.85, "speed", DYNAMIC,
          why="The implied framework is made from this very claim, so that setting restates it. What is missing is "
          "time in which our PEs idle; more of it with a quarter of the batch on each board.",
          change="More sequences on each board. For imdb more memory: its dense tensors leave room for one group."),
    Claim("energy, hardware only (Dyn-Arch)", "×", 1.67, 2.69, "energy", DYNAMIC,
          why="Nothing is skipped, so a board takes its static power for longer. The GPU's power is assumed.",
          change="Less static power, and a measured power of the GPU in training."),
    Claim("data movement cut, weights", "%", 40.85, None, "movement", ETA, "weights",
          "bfloat16 halves the loads. Without it only rows that no δ needs are left out. Each group of channels "
          "loads the weights for its own part of the batch, so a board loads several times what the GPU does.",
          "One load for all groups of channels. The groups would have to work on the same layer at the same time."),
    Claim("data movement cut, activations", "%", 32.89, None, "movement", ETA, "activations",
          "Skipping zeros moves no fewer, and delta inputs move more. Skipped cells have no gradients that arrive or "
          "leave, so MS2 moves fewer. Dense tensors may leave Dyn-Arch memory for fewer groups of channels.",
          "Activations in bfloat16, which gives other bits."),
    Claim("data movement cut, intermediates", "%", 80.04, None, "movement", ETA, "intermediates",
          "Streams in bfloat16 take the place of dense tensors. With delta inputs the sums of the gates go to "
          "memory and come back, and count as intermediates.",
          "Sums of the gates that stay in a channel from one step to the next: its buffers are too small for the "
          "whole batch."),
    Claim("memory footprint cut", "%", 57.52, 75.75, "footprint", ETA,
          why="On a board each group of channels holds the weights twice, by rows and by columns, and δ of all "
          "layers is kept where it fits. Delta inputs keep what was sent of all steps.",
          change="One copy of the weights for all groups, turned while it is loaded. δ of one layer at a time."),
)  # fmt: skip


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
