"""The page and the figure of runs of ``eta-lstm research compress``: a summary of each kind, and every run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from string import Template

from etalstm.host.drawing import COLOURS, MARKERS, log_ticks, pyplot, save_figure
from etalstm.research.studies.several import table_of
from etalstm.research.studies.shrinking import ACCEPTED, DENSE, PROFILES, Network, ShrunkRun

COSTS: dict[str, Callable[[Network], float | None]] = {
    "LSTM parameters": lambda network: network.lstm_parameters,
    "cycles": lambda network: network.cycles,
    "ms on a processor": lambda network: network.milliseconds,
}
"""Costs that shrink. None for a network that was not timed, or does not fit the preset."""


def fold(run: ShrunkRun, network: Network, cost: str) -> float | None:
    """Give how many times less a network costs than the dense start of its run; None if one of them is not known."""
    ours, start = COSTS[cost](network), COSTS[cost](run.dense)
    return start / ours if ours and start else None


def kinds(runs: Sequence[ShrunkRun]) -> dict[str, list[ShrunkRun]]:
    """Give the runs of each kind by its name: the settings in which the kinds differ."""
    settings = [run.kind for run in runs]
    known = dict.fromkeys(name for one in settings for name in one)
    names = [name for name in known if _differs(name, settings)]
    found: dict[str, list[ShrunkRun]] = {}
    for run, one in zip(runs, settings, strict=True):
        found.setdefault(", ".join(f"{name} {_text(one.get(name))}" for name in names) or "all", []).append(run)
    return found


def _differs(name: str, settings: Sequence[dict]) -> bool:
    """Tell whether kinds differ in a setting. Runs without a profile differ in ``guided``, not in the profile."""
    values = [one.get(name) for one in settings if name in one or name not in PROFILES]
    return any(value != values[0] for value in values)


def _text(value) -> str:
    return "+".join(value) if isinstance(value, list) else str(value)


_PAGE = Template(Path(__file__).with_name("shrinking.md").read_text(encoding="utf-8"))


def markdown(runs: Sequence[ShrunkRun], command: str, picture: str = "") -> str:
    """Write the page of runs of one task, with the command that makes it, and its figure if there is one."""
    summary, rounds = ("\n".join(table_of(*found)) for found in (_summary(runs), _run_rows(runs)))
    figure = f"![Scores of all rounds against the sizes of the networks]({picture})\n\n" if picture else ""
    of_runs = {"task": runs[0].settings["task"], "unit": runs[0].score.unit, "score": runs[0].score.label}
    return _PAGE.substitute(of_runs, command=command, figure=figure, summary=summary, rounds=rounds)


def _summary(runs: Sequence[ShrunkRun]) -> tuple[list[str], list[list[str]]]:
    unit, rows = runs[0].score.unit, []
    for name, members in kinds(runs).items():
        seeds = ", ".join(str(run.seed) for run in members)
        for step in members[0].steps[1:]:
            rows.append([name, seeds, step, *_folds(members, step), *_losses(members, step)])
    return ["runs", "seeds", "after", *COSTS, f"validation, {unit}", f"test, {unit}"], rows


def _folds(members: Sequence[ShrunkRun], step: str) -> list[str]:
    texts = []
    for cost in COSTS:
        found = [fold(run, run.after(step), cost) for run in members]
        known = [value for value in found if value is not None]
        texts.append(f"{mean(known):.2f} ({min(known):.2f})" if len(known) == len(found) else "")
    return texts


def _losses(members: Sequence[ShrunkRun], step: str) -> list[str]:
    texts = []
    for split in ("validation", "test"):
        found = [run.score.worse(getattr(run.after(step), split), getattr(run.dense, split)) for run in members]
        texts.append(f"{mean(found):+.2f} ({max(found):+.2f})")
    return texts


def _run_rows(runs: Sequence[ShrunkRun]) -> tuple[list[str], list[list[str]]]:
    columns = ["run, seed", "after", "inputs / units", "LSTM parameters", "all parameters"]
    columns += ["validation", "test", "cycles", "ms on a processor"]
    rows = []
    for name, members in kinds(runs).items():
        for run in members:
            rows += [[f"{name}, {run.seed}", *_described(run, *shown)] for shown in run.shown]
    return columns, rows


def _described(run: ShrunkRun, steps: Sequence[str], network: Network) -> list[str]:
    def counted(cost: str, form: str) -> str:
        value, times = COSTS[cost](network), fold(run, network, cost)
        return "" if value is None else f"{value:{form}}" + (f" ({times:.2f})" if times and DENSE not in steps else "")

    sizes = f"{network.inputs} / {', '.join(map(str, network.units))}"
    scores = f"{network.validation:.2f}", f"{network.test:.2f}"
    return [", ".join(steps), sizes, counted("LSTM parameters", ","), f"{network.parameters:,}", *scores,
            counted("cycles", ","), counted("ms on a processor", ".2f")]  # fmt: skip


PARAMETERS = "LSTM parameters"
PANELS = {PARAMETERS: "LSTM parameters, times fewer", "cycles": "cycles of an iteration, times fewer"}
SPLITS = ("validation", "test")
# Of kinds: a colour, dashes and the size of marks. Those before are seen between the dashes, and around the marks.
STYLES = ((4, "-", 8), (5, (0, (3, 3)), 4.5), (3, (0, (1, 3)), 11), (6, (0, (1, 6)), 2))
LOOKS = [{"color": COLOURS[number], "linestyle": dashes, "markersize": size} for number, dashes, size in STYLES]


def draw_runs(runs: Sequence[ShrunkRun], path: Path) -> None:
    """Draw scores on validation and test against parameters and cycles, both compared with the dense start.

    All runs are of one task. Cycles are left out where no network saves any, as where only weights were pruned. A
    colour with its dashes is a kind of run, a marker a seed. Thin lines join the networks that were accepted, and a
    hollow mark was rejected. A thick line is the mean over the seeds of a kind, round by round, while all go on.
    :class:`RunError` if matplotlib is not installed, or does not know the format that the path's ending says.
    """
    costs = [cost for cost in PANELS if cost == PARAMETERS or _shrinks(runs, cost)]
    shape = {"figsize": (1 + 4.5 * len(costs), 7.5), "squeeze": False, "constrained_layout": True}
    figure, panels = pyplot().subplots(2, len(costs), sharex="col", sharey="row", **shape)
    unit, tolerance = runs[0].score.unit, runs[0].settings["tolerance"]
    for line, split in zip(panels, SPLITS, strict=True):
        for axes, cost in zip(line, costs, strict=True):
            _draw_panel(axes, runs, cost, split)
        line[0].set_ylabel(f"{split}: worse than\nthe dense start, {unit}")
    limit = {"color": "0.4", "linestyle": (0, (1, 2)), "zorder": 0, "label": "limit of validation"}
    for above, below, cost in zip(*panels, costs, strict=True):
        above.axhline(tolerance * (100 if runs[0].score.relative else 1), **limit)
        below.set_xlabel(PANELS[cost])
    corner = panels[0][0]
    for seed in sorted({run.seed for run in runs}):
        corner.plot([], [], color="0.3", linewidth=0.8, marker=MARKERS[seed % len(MARKERS)], label=f"seed {seed}")
    if any(one.decision != ACCEPTED for run in runs for one in run.networks):
        corner.plot([], [], "o", color="0.3", markerfacecolor="none", label="rejected")
    legend = {"loc": "outside lower center", "fontsize": 9, "frameon": False, "handlelength": 4}
    figure.legend(*corner.get_legend_handles_labels(), ncols=1 + 2 * len(costs), **legend)
    save_figure(figure, path)


def _shrinks(runs: Sequence[ShrunkRun], cost: str) -> bool:
    """Tell whether any network costs more or less than the dense start of its run."""
    return any(fold(run, one, cost) not in (None, 1) for run in runs for one in run.networks)


def _draw_panel(axes, runs: Sequence[ShrunkRun], cost: str, split: str) -> None:
    for number, (name, members) in enumerate(kinds(runs).items()):
        look, accepted = LOOKS[number % len(LOOKS)], []
        for run in members:
            mark = look | {"marker": MARKERS[run.seed % len(MARKERS)]}
            accepted.append(_points(run, cost, split, lambda one: one.decision == ACCEPTED))
            axes.plot(*zip(*accepted[-1], strict=True), linewidth=1, **mark)
            rejected = _points(run, cost, split, lambda one: one.decision != ACCEPTED)
            axes.plot(*zip(*rejected, strict=True), **mark | {"linestyle": "none", "markerfacecolor": "none"})
        means = [[mean(values) for values in zip(*points, strict=True)] for points in zip(*accepted, strict=False)]
        axes.plot(*zip(*means, strict=True), linewidth=3.5, alpha=0.75, label=f"{name}, mean of seeds", **look)
    axes.set_xscale("log")
    log_ticks(axes.xaxis)
    axes.axhline(0, color="0.6", linewidth=1, zorder=0)
    axes.grid(alpha=0.3)


def _points(run: ShrunkRun, cost: str, split: str, wanted: Callable[[Network], bool]) -> list[tuple[float, float]]:
    """Give how many times smaller the wanted networks are, and how much worse, where both are known."""
    dense = getattr(run.dense, split)
    return [
        (times, run.score.worse(score, dense))
        for one in run.networks
        if wanted(one)
        and (times := fold(run, one, cost)) is not None
        and (score := getattr(one, split)) is not None
    ]  # fmt: skip
