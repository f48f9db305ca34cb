"""The eight cases of the comparison: time, energy and bytes of an iteration, with their provenance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from etalstm.network.benchmarks import Benchmark
from etalstm.research.paper import energy, gpu
from etalstm.research.paper.densities import densities_of, stream_share
from etalstm.research.paper.requests import BOARDS, DYNAMIC, ETA, ETA_PAPER, INFERENCE, STATIC, Measure, iteration

GIGA, TERA = 1e9, 1e12
VERILOG, MODELLED, CPU, CITED, ASSUMED = "V", "M", "C", "L", "A"
PROVENANCE = {
    VERILOG: "measured on the Verilog",
    MODELLED: "modelled",
    CPU: "measured on the CPU",
    CITED: "from the literature",
    ASSUMED: "assumed",
}


@dataclass(frozen=True)
class Value:
    """A number with its unit, its provenance `how` in letters of :data:`PROVENANCE`, and its band's ends if any."""

    value: float
    unit: str
    how: str
    low: float | None = None
    high: float | None = None
    note: str = ""

    def __post_init__(self):
        if not self.how or not set(self.how) <= set(PROVENANCE):
            raise ValueError(f"provenance must be letters of {''.join(PROVENANCE)}, got {self.how!r}")

    @property
    def band(self) -> tuple[float, float]:
        """The ends of the band; ``ValueError`` without one."""
        if self.low is None or self.high is None:
            raise ValueError(f"{self.value} {self.unit} has no band")
        return self.low, self.high

    def text(self, form: str) -> str:
        """Write the number, followed by its band in brackets, unless the band is a point."""
        number = form.format(self.value)
        if self.low is None:
            return number
        low, high = self.band
        is_point = high - low < 1e-9 * abs(self.value)
        return number if is_point else f"{number} ({form.format(low)} to {form.format(high)})"


def together(*how: str) -> str:
    """Join provenances: each letter once, in the order of `PROVENANCE`."""
    return "".join(letter for letter in PROVENANCE if any(letter in one for one in how))


CUDNN, FRAMEWORK = "cudnn", "framework"
BASELINES = (CUDNN, FRAMEWORK)
BASELINE, MS1, MS2, COMBINE = "baseline", "ms1", "ms2", "combine_ms"
CASES = {
    BASELINE: "GPU baseline",
    MS1: "MS1 on the GPU",
    MS2: "MS2 on the GPU",
    COMBINE: "Combine-MS on the GPU",
    INFERENCE: "LSTM-Inf",
    STATIC: "Static-Arch",
    DYNAMIC: "Dyn-Arch",
    ETA_PAPER: "η-LSTM, MS1 and MS2",
    ETA: "η-LSTM, all means",
}
ON_GPU = (BASELINE, MS1, MS2, COMBINE)
ON_BOARDS = (INFERENCE, STATIC, DYNAMIC, ETA_PAPER, ETA)
MOVED = ("weights", "activations", "intermediates", "deltas")

DENSITIES = CPU + ASSUMED  # measured on smaller networks than the benchmarks; that they carry over is assumed

# The baseline, as the source paper's ratios imply it. Dyn-Arch has as many PEs as the GPU has units, and is 1.42 times
# as fast. If all its PEs worked in every cycle, at the clock that we assume, the GPU would reach this many operations a
# second. The paper's figures imply that number. Nobody has measured it.
THEIR_PES, THEIR_DYNAMIC_SPEED, ASSUMED_CLOCK = 5120, 1.42, 250e6
IMPLIED_OPERATIONS = 2 * THEIR_PES * ASSUMED_CLOCK / THEIR_DYNAMIC_SPEED


@dataclass(frozen=True)
class Row:
    """An iteration of a benchmark in one case."""

    benchmark: str
    case: str
    boards: int  # 0 on the GPU
    baseline: str  # kind of GPU software, one of :data:`BASELINES`; empty on a board
    milliseconds: Value
    joules: Value
    # moved, footprint: bytes, of all boards together
    moved: dict[str, Value]
    footprint: dict[str, Value]
    events: dict[str, float]  # from which the energy follows
    fits: bool = True  # the memory is large enough
    groups: int = 0  # of channels, on a board
    # speed, energy: the baseline's over this row's
    speed: dict[str, Value] = field(default_factory=dict)
    energy: dict[str, Value] = field(default_factory=dict)


def find_row(rows: Sequence[Row], benchmark: str, case: str, boards: int, baseline: str) -> Row:
    """Look up a row."""
    wanted = benchmark, case, boards, baseline
    return next(row for row in rows if (row.benchmark, row.case, row.boards, row.baseline) == wanted)


def rows_of(benchmark: Benchmark, roofline: gpu.Roofline, measure: Measure) -> list[Row]:
    """Give all rows of a benchmark, with their ratios to both baselines."""
    rows = [gpu_row(benchmark, case, kind, roofline) for kind in BASELINES for case in ON_GPU]
    rows += [board_row(benchmark, case, boards, measure) for boards in BOARDS for case in ON_BOARDS]
    return list(_with_ratios(rows))


def work_of(benchmark: Benchmark, case: str) -> gpu.Work:
    """Give the work of an iteration on the GPU: MS1 moves and keeps fewer bytes, MS2 has fewer backward passes."""
    known = densities_of(benchmark.name)
    kept, backward = {
        BASELINE: (1.0, 1.0),
        MS1: (stream_share(known.ms1.local), 1.0),
        MS2: (1.0, known.ms2.backward),
        COMBINE: (stream_share(known.ms2.local), known.ms2.backward),
    }[case]
    return gpu.Work(benchmark.network, benchmark.batch, benchmark.steps, kept, backward)


def gpu_row(benchmark: Benchmark, case: str, kind: str, roofline: gpu.Roofline) -> Row:
    """Model a case on the GPU.

    MS1 and MS2 change the framework's time by the share by which they change that of tuned software.
    """
    work, whole = work_of(benchmark, case), work_of(benchmark, BASELINE)
    seconds = roofline.seconds(work)
    if kind == FRAMEWORK:
        seconds *= gpu.operations(whole) / IMPLIED_OPERATIONS / roofline.seconds(whole)
    how = MODELLED + CITED if kind == CUDNN else CITED + ASSUMED
    how = how if case == BASELINE else together(how, DENSITIES)
    events = {f"gpu_{kind}": seconds}
    return Row(
        benchmark.name, case, 0, kind, Value(1e3 * seconds, "ms", how), _joules(events, how),
        _bytes(gpu.moved(work), together(MODELLED, how)), _bytes(gpu.footprint(work), together(MODELLED, how)), events,
    )  # fmt: skip


def board_row(benchmark: Benchmark, case: str, boards: int, measure: Measure) -> Row:
    """Model a case on our machine; what boards exchange is assumed to take no time and no energy."""
    found = iteration(benchmark, case, boards, measure)
    skips = case in (ETA, ETA_PAPER)
    how = together(MODELLED, DENSITIES if skips else "", ASSUMED if boards > 1 or not found["fits"] else "")
    moved = {kind: found["bytes"][f"read_{kind}"] + found["bytes"][f"write_{kind}"] for kind in MOVED}
    moved["program"] = found["bytes"]["program"]
    seconds = found["milliseconds"] / 1e3
    events = energy.machine_events(found["operations"], sum(moved.values()), seconds, boards)
    return Row(
        benchmark.name, case, boards, "", Value(found["milliseconds"], "ms", how), _joules(events, how),
        _bytes({kind: boards * value for kind, value in moved.items()}, how),
        _bytes({kind: boards * value for kind, value in found["footprint"].items()}, how), dict(events), found["fits"],
        found["groups"],
    )  # fmt: skip


def _bytes(found: dict[str, float], how: str) -> dict[str, Value]:
    return {kind: Value(value, "B", how) for kind, value in found.items()}


def _joules(events: energy.Events, how: str) -> Value:
    low, high = energy.band(energy.joules(events, energy.draw()))
    return Value(energy.joules(events), "J", together(how, CITED, ASSUMED), low, high)


def _with_ratios(rows: Sequence[Row]) -> Iterator[Row]:
    """Set every row beside the baselines; a row of the GPU beside its own kind alone."""
    draws = energy.draw()
    bases = {row.baseline: row for row in rows if row.case == BASELINE}
    for row in rows:
        speed, ratio = {}, {}
        for kind in [row.baseline] if row.baseline else BASELINES:
            base = bases[kind]
            how = together(base.milliseconds.how, row.milliseconds.how)
            speed[kind] = Value(base.milliseconds.value / row.milliseconds.value, "1", how)
            spread = energy.joules(base.events, draws) / energy.joules(row.events, draws)
            value = base.joules.value / row.joules.value
            ratio[kind] = Value(value, "1", together(how, CITED, ASSUMED), *energy.band(spread))
        yield replace(row, speed=speed, energy=ratio)
