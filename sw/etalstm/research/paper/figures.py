"""The figures of the comparison, as SVG, in colours that colour-blind readers tell apart and hatches for print."""

import io
from collections.abc import Mapping, Sequence

from etalstm.host.drawing import log_ticks, pyplot
from etalstm.network.benchmarks import Benchmark
from etalstm.research.paper.cases import CASES, CUDNN, ETA, FRAMEWORK, GIGA, ON_BOARDS, Row, find_row
from etalstm.research.paper.claims import BASELINE_NAMES, CLAIMS, boards_text, findings
from etalstm.research.paper.gpu import Fitted, recurrent
from etalstm.research.paper.study import Point

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # Okabe and Ito
HATCHES = ("", "//", "..", "xx", "\\\\", "++")
SIZES = {"hidden": "units H", "layers": "layers L", "steps": "steps T"}
RATES = {"throughput": "useful GFLOP/s", "efficiency": "useful GFLOP/s/W"}
AXES = {"speed": "speed over the baseline's", "energy": "the baseline's energy over ours"}
STYLE = {"svg.fonttype": "none", "hatch.linewidth": 0.5}  # text, not outlines of letters


def _panels(lines: int, columns: int, size: tuple[float, float], **shared) -> tuple:
    """Give a figure of a size in inches, and its panels by line."""
    return pyplot().subplots(lines, columns, figsize=size, squeeze=False, constrained_layout=True, **shared)


def _svg(figure) -> str:
    picture = io.StringIO()
    with pyplot().rc_context(STYLE):
        figure.savefig(picture, format="svg", metadata={"Date": None})
    pyplot().close(figure)
    return picture.getvalue()


def draw_fit(fitted: Fitted, published: Sequence[Benchmark]) -> str:
    """Draw published times and those of the roofline, fitted and not."""
    figure, axes = pyplot().subplots(figsize=(6, 3.6), constrained_layout=True)
    for number, (label, names) in enumerate({"fitted": fitted.fitted, "not fitted": fitted.others}.items()):
        chosen = [one for one in published if one.name in names]
        ours = [1e3 * fitted.roofline.seconds(recurrent(one)) for one in chosen]
        theirs = [one.published_milliseconds for one in chosen]
        axes.plot(theirs, ours, "os"[number], color=COLOURS[number], label=label)
    ends = [end(one.published_milliseconds for one in published) for end in (min, max)]
    axes.plot(ends, ends, "--", color="#555", linewidth=1, label="equal")
    axes.set(xscale="log", yscale="log", xlabel="published, ms", ylabel="roofline, ms")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    return _svg(figure)


def draw_headline(rows: Sequence[Row]) -> str:
    """Draw what became of the source paper's claims of speed and energy: a bar for each setting, and their average."""
    claims = [one for one in CLAIMS if one.case == ETA and one.quantity in AXES]
    figure, (panels,) = _panels(1, len(claims), (11, 3.8), sharey=True)
    for axes, claim in zip(panels, claims, strict=True):
        found = list(reversed(findings(claim, rows)))
        settings, values = [one.setting for one in found], [one.average for one in found]
        numbers, colours = [value.value for value in values], [COLOURS["MS2" in setting] for setting in settings]
        bars = axes.barh(settings, numbers, xerr=_spread(values), color=colours, edgecolor="white")
        axes.bar_label(bars, fmt="{:.3g}", padding=4, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
        axes.axvline(1, color="#333", linewidth=1)
        axes.axvline(claim.average, color=COLOURS[5], linestyle="--", linewidth=1.5, label="the source paper's average")
        axes.set(xscale="log", xlabel=AXES[claim.quantity])
        axes.set_xlim(right=2 * max(numbers))
        log_ticks(axes.xaxis)
        axes.grid(axis="x", alpha=0.25)
        axes.set_axisbelow(True)
    _legend(figure, panels[0])
    return _svg(figure)


def draw_ratios(rows: Sequence[Row], quantity: str) -> str:
    """Draw ``speed`` or ``energy`` by benchmark and case: baselines side by side, boards below each other.

    Bands are lines. A logarithmic axis: twice and half are equally far from the baseline, which is the line at 1.
    """
    boards = sorted({row.boards for row in rows if row.boards})
    figure, panels = _panels(len(boards), 2, (11, 6.5), sharey=True)
    names = list(dict.fromkeys(row.benchmark for row in rows))
    for line, count in zip(panels, boards, strict=True):
        for axes, kind in zip(line, (CUDNN, FRAMEWORK), strict=True):
            for number, case in enumerate(ON_BOARDS):
                chosen = [row for row in rows if row.case == case and row.boards == count]
                _bars(axes, number, [getattr(row, quantity)[kind] for row in chosen], CASES[case])
            axes.axhline(1, color="#333", linewidth=1)
            axes.set(yscale="log", title=f"{boards_text(count)} over {BASELINE_NAMES[kind]}")
            log_ticks(axes.yaxis)
            axes.set_xticks(range(len(names)), names)
            axes.grid(axis="y", which="both", alpha=0.25)
            axes.set_axisbelow(True)
    for axes in panels[:, 0]:
        axes.set_ylabel(AXES[quantity])
    _legend(figure, panels[0][0])
    return _svg(figure)


def _bars(axes, number, values, label):
    width = 0.8 / len(ON_BOARDS)
    positions = [at - 0.4 + (number + 0.5) * width for at in range(len(values))]
    heights = [value.value for value in values]
    axes.bar(
        positions, heights, width, yerr=_spread(values), label=label, color=COLOURS[number], hatch=HATCHES[number],
        edgecolor="white", error_kw={"elinewidth": 0.8},
    )  # fmt: skip


def draw_bytes(rows: Sequence[Row], quantity: str, cases: Sequence[tuple[str, int, str]]) -> str:
    """Draw ``moved`` or ``footprint`` by kind, stacked: a panel for each benchmark, a bar for each case, number of
    boards and baseline.
    """
    names = list(dict.fromkeys(row.benchmark for row in rows))
    figure, panels = _panels(1, len(names), (2 + 1.7 * len(names), 4.6))
    kinds = list(dict.fromkeys(kind for row in rows for kind in getattr(row, quantity)))
    for axes, name in zip(panels[0], names, strict=True):
        chosen = [find_row(rows, name, *case) for case in cases]
        found = [getattr(row, quantity) for row in chosen]
        _stack(axes, [{kind: value.value / GIGA for kind, value in each.items()} for each in found], kinds)
        axes.set(title=name)
        axes.set_xticks(range(len(chosen)), [_short(row) for row in chosen], rotation=60, ha="right", fontsize=8)
    panels[0][0].set_ylabel("GB")
    _legend(figure, panels[0][0])
    return _svg(figure)


def draw_rates(points: Sequence[Point]) -> str:
    """Draw throughput and energy efficiency against each size that is changed; bands of the efficiency are lines."""
    sweeps = list(dict.fromkeys(point.swept for point in points))
    figure, panels = _panels(len(RATES), len(sweeps), (11, 6.5), sharex="col", sharey="row")
    for line, (name, label) in zip(panels, RATES.items(), strict=True):
        for axes, swept in zip(line, sweeps, strict=True):
            for number, case in enumerate(_cases(points)):
                chosen = [point for point in points if (point.swept, point.row.case) == (swept, case)]
                _curve(axes, number, chosen, name)
            axes.set(xscale="log", yscale="log")
            axes.grid(which="both", alpha=0.25)
            sizes = sorted({point.size for point in points if point.swept == swept})
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.xaxis.set_minor_locator(pyplot().matplotlib.ticker.NullLocator())
            log_ticks(axes.yaxis)
        line[0].set_ylabel(label)
    for axes, swept in zip(panels[-1], sweeps, strict=True):
        axes.set_xlabel(SIZES[swept])
    _legend(figure, panels[0][0])
    return _svg(figure)


def _spread(values) -> list[list[float]] | None:
    """Give how far the band goes down and up from each value; None where values have none."""
    if values[0].low is None:
        return None
    return [[v.value - v.low for v in values], [v.high - v.value for v in values]]


def _curve(axes, number, chosen, name):
    values = [getattr(point, name) for point in chosen]
    axes.errorbar(
        [point.size for point in chosen], [value.value for value in values], _spread(values), marker="os^"[number],
        color=COLOURS[number], label=CASES[chosen[0].row.case], capsize=3, elinewidth=0.8,
    )  # fmt: skip


def draw_kinds(points: Sequence[Point], quantity: str) -> str:
    """Draw the shares that kinds of bytes have of ``footprint`` or ``moved``: a row of panels for each machine.

    Above each bar stands the whole, in GB.
    """
    sweeps, cases = list(dict.fromkeys(point.swept for point in points)), _cases(points)
    figure, panels = _panels(len(cases), len(sweeps), (11, 7.5), sharex="col", sharey=True)
    kinds = list(dict.fromkeys(kind for point in points for kind in getattr(point.row, quantity)))
    for line, case in zip(panels, cases, strict=True):
        for axes, swept in zip(line, sweeps, strict=True):
            chosen = [point for point in points if (point.swept, point.row.case) == (swept, case)]
            wholes = [sum(value.value for value in getattr(point.row, quantity).values()) for point in chosen]
            shares = [
                {kind: value.value / whole for kind, value in getattr(point.row, quantity).items()}
                for point, whole in zip(chosen, wholes, strict=True)
            ]
            _stack(axes, shares, kinds)
            for position, whole in enumerate(wholes):
                axes.text(position, 1.02, f"{whole / GIGA:.3g}", ha="center", fontsize=8)
            axes.set(ylim=(0, 1.15), yticks=(0, 0.5, 1))
            axes.set_xticks(range(len(chosen)), [str(point.size) for point in chosen])
        line[0].set_ylabel(CASES[case], fontsize=9)
    for axes, swept in zip(panels[-1], sweeps, strict=True):
        axes.set_xlabel(SIZES[swept])
    _legend(figure, panels[0][0])
    return _svg(figure)


def draw_boards(points: Sequence[Mapping]) -> str:
    """Draw how much faster several boards are than one: with the same batch, and with as large a batch each.

    Points have ``benchmark`` and ``boards``, and the gains ``shared``, ``pipeline``, or None, and ``batch_each``.
    """
    names = list(dict.fromkeys(point["benchmark"] for point in points))
    figure, (panels,) = _panels(1, 2, (10, 4.4), sharey=True)
    counts = sorted({1, *(point["boards"] for point in points)})
    for number, name in enumerate(names):
        chosen = [point for point in points if point["benchmark"] == name]
        style = {"color": COLOURS[number % len(COLOURS)], "marker": "os^Dv<"[number % 6]}
        for axes, kinds in zip(panels, (("shared", "pipeline"), ("batch_each",)), strict=True):
            gains = [(point["boards"], max(filter(None, map(point.get, kinds)))) for point in chosen]
            axes.plot(*zip((1, 1.0), *gains, strict=True), label=name, **style)
    for axes, title in zip(panels, ("the same batch", "as large a batch each"), strict=True):
        axes.plot(counts, counts, "--", color="#555", linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="boards", title=title)
        axes.set_xticks(counts, map(str, counts))
        axes.set_yticks(counts, map(str, counts))
        axes.minorticks_off()
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("times as fast as one board")
    _legend(figure, panels[0])
    return _svg(figure)


def _stack(axes, found, kinds):
    """Stack the heights of kinds, a bar for each of `found`."""
    bottom = [0.0] * len(found)
    for number, kind in enumerate(kinds):
        heights = [each.get(kind, 0.0) for each in found]
        axes.bar(
            range(len(found)), heights, 0.8, bottom=bottom, label=kind, color=COLOURS[number], hatch=HATCHES[number],
            edgecolor="white",
        )  # fmt: skip
        bottom = [a + b for a, b in zip(bottom, heights, strict=True)]


def _cases(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(point.row.case for point in points))


def _short(row: Row) -> str:
    return CASES[row.case].partition(",")[0] + (" +" if row.case == "eta" else "")


def _legend(figure, axes):
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
