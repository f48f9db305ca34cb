"""The page of the comparison, block by block."""

from collections.abc import Callable, Iterator
from functools import partial

from etalstm.network.benchmarks import V100_OPERATIONS, Benchmark
from etalstm.research.paper import cases
from etalstm.research.paper.cases import CASES, GIGA, TERA, Row, Value, find_row, together, work_of
from etalstm.research.paper.claims import BASELINE_NAMES, CLAIMS, Finding, boards_text, findings, mean
from etalstm.research.paper.densities import densities_of
from etalstm.research.paper.document import Block, Figure, Heading, Paragraph, Table
from etalstm.research.paper.energy import COEFFICIENTS, DRAWS, SEED
from etalstm.research.paper.figures import draw_bytes, draw_fit, draw_ratios
from etalstm.research.paper.gpu import V100_BANDWIDTH, operations
from etalstm.research.paper.requests import BOARDS, INFERENCE, STATIC
from etalstm.research.paper.sections import characteristics, densities, limits
from etalstm.research.paper.study import Study

SHOWN = (  # cases whose bytes are shown: the first on the GPU, the others on one board
    (cases.BASELINE, 0, cases.CUDNN), (cases.COMBINE, 0, cases.CUDNN), (cases.DYNAMIC, 1, ""),
    (cases.ETA_PAPER, 1, ""), (cases.ETA, 1, ""),
)  # fmt: skip
Pick = Callable[[Row], Value | None]


def page(study: Study, command: str) -> Iterator[Block]:
    """Give the blocks of the page; `command` has made it."""
    yield from _opening(study, command)
    yield from _claims(study)
    yield from _gpu(study)
    yield from _speed(study)
    yield from _energy(study)
    yield from _bytes(study)
    yield from characteristics(study)
    yield from densities(study)
    yield from limits(study)


def _opening(study: Study, command: str) -> Iterator[Block]:
    letters = ", ".join(f"{letter}: {text}" for letter, text in cases.PROVENANCE.items())
    yield Heading("η-LSTM's comparison, made anew", 1)
    yield Paragraph(
        f"Made with {command}. The eight cases of the source paper on {len(study.names)} networks: "
        f"{', '.join(study.names)}. The paper names its six data sets, and the sizes of the networks here are "
        "ours. η-LSTM has two rows: with MS1 and MS2, as the paper names them, and with all means of this machine: "
        "besides, δ pruned to a share, delta inputs and weights in bfloat16. No board and no GPU was measured for this "
        "page."
    )
    yield Paragraph(
        f"Letters say what a value rests on. {letters}. The cycle model differs from the Verilog by 0.28 % at most "
        f"over the 45 configurations of eta-lstm model check.{_star_note(study)}"
    )
    yield Heading("Where η-LSTM wins, and where not")
    yield Paragraph(
        f"One board has {study.board_operations / TERA:.2f} TFLOP/s at most, {BOARDS[-1]} boards have "
        f"{BOARDS[-1] * study.board_operations / TERA:.2f}. The V100 has {V100_OPERATIONS / TERA:.1f}. The rest is "
        "what skipping makes of it, and how well either machine is used."
    )
    for kind in cases.BASELINES:
        for boards in BOARDS:
            yield Paragraph(_verdict(study, kind, boards))
    yield Paragraph(_over_machines(study))
    yield Paragraph(
        "Where the speed of one board over tuned cuDNN comes from: the ratio of the peaks, times the share of its peak "
        "that Dyn-Arch reaches, over that which the GPU reaches, times how much faster η-LSTM with all means is than "
        "Dyn-Arch. Where dense tensors leave memory for fewer groups of channels, Dyn-Arch is slower for it."
    )
    columns = [
        "network",
        "peak over peak",
        "Dyn-Arch, of its peak",
        "GPU, of its peak",
        "η-LSTM over Dyn-Arch",
        "speed",
        "groups of channels, Dyn-Arch and η-LSTM",
    ]
    yield Table(columns, [_factors(study, one) for one in study.benchmarks])


def _over_machines(study: Study) -> str:
    texts = []
    for case in (cases.DYNAMIC, STATIC, INFERENCE):
        keys = (case, 1, ""), (cases.ETA, 1, "")
        pairs = [[find_row(study.rows, name, *key).milliseconds.value for key in keys] for name in study.names]
        ratios = [theirs / ours for theirs, ours in pairs]
        texts.append(f"{CASES[case]} {sum(ratios) / len(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return (
        f"How many times as long as {CASES[cases.ETA]}, other machines take on one board, mean over the networks "
        f"(lowest to highest): {', '.join(texts)}."
    )


def _factors(study: Study, benchmark: Benchmark) -> list[str]:
    """Give the factors of one board's speed over tuned cuDNN, and that speed."""
    keys = (cases.DYNAMIC, 1, ""), (cases.ETA, 1, ""), (cases.BASELINE, 0, cases.CUDNN)
    rows = [find_row(study.rows, benchmark.name, *key) for key in keys]
    dynamic, eta, base = (row.milliseconds.value / 1e3 for row in rows)
    work = operations(work_of(benchmark, cases.BASELINE))
    ours, theirs = work / dynamic / study.board_operations, work / base / V100_OPERATIONS
    factors = study.board_operations / V100_OPERATIONS, ours, theirs, dynamic / eta, base / eta
    return [benchmark.name, *(f"{factor:.3f}" for factor in factors), f"{rows[0].groups}, {rows[1].groups}"]


def _verdict(study: Study, kind: str, boards: int) -> str:
    rows = [row for row in study.rows if row.case == cases.ETA and row.boards == boards]
    speed, energy = [row.speed[kind] for row in rows], [row.energy[kind] for row in rows]
    faster = [row.benchmark for row in rows if row.speed[kind].value > 1]
    saves = [row.benchmark for row in rows if row.energy[kind].band[0] > 1]
    return (
        f"Over {BASELINE_NAMES[kind]}, {boards_text(boards)}: speed {mean(speed).text('{:.3g}')}, energy "
        f"{mean(energy).text('{:.3g}')} (means over the networks). Faster in {len(faster)} of {len(rows)}. Less "
        f"energy, with the whole band, in {len(saves)} of {len(rows)}."
    )


def _claims(study: Study) -> Iterator[Block]:
    yield Heading("The claims")
    yield Paragraph(
        "Theirs: average (best). Ours: mean over the networks (best), and of a band the means of its ends. "
        "Reached: our mean is at least their average. The paper's machine was "
        "probably four boards, so 4 boards over the implied framework is the setting nearest to theirs. The "
        "paper's published description does not say what its savings of bytes are measured against."
    )
    rows = []
    for claim in CLAIMS:
        best = "" if claim.best is None else f" ({claim.best:g})"
        theirs = f"{claim.average:g}{best} {claim.unit}"
        for number, found in enumerate(findings(claim, study.rows)):
            first = (claim.name, theirs) if number == 0 else ("", "")
            rows.append([*first, *_finding_cells(found)])
    yield Table(["claim", "theirs", "setting", "ours", "how", "reached"], rows)
    yield Heading("What decides it", 3)
    reasons = [[claim.name, claim.why, claim.change] for claim in CLAIMS]
    yield Table(["claim", "what decides whether it is reached", "what would bring ours nearer"], reasons)


def _finding_cells(found: Finding) -> list[str]:
    ours = f"{found.average.text('{:.3g}')} ({found.best.value:.3g})"
    return [found.setting, ours, found.average.how, "yes" if found.reached else "no"]


def _gpu(study: Study) -> Iterator[Block]:
    fitted, roofline = study.fitted, study.fitted.roofline
    yield Heading("The GPU")
    yield Paragraph(
        f"Tuned cuDNN is a roofline of a V100: {V100_BANDWIDTH / GIGA:.0f} GB/s, {V100_OPERATIONS / TERA:.1f} "
        "TFLOP/s in float32, and a fixed time for each step of a layer. Two numbers are fitted on every second one "
        f"of the six public DeepBench results: products reach {roofline.efficiency:.3f} of the peak, and a step "
        f"takes {1e6 * roofline.step_seconds:.1f} µs beside. Layers are taken to run one after the other. "
        "Overlapping them would hide a part of the fixed time."
    )
    errors = fitted.fitted | fitted.others
    yield Table(
        ["DeepBench", "published, ms", "roofline, ms", "error", "fitted"],
        [[one.name, f"{one.published_milliseconds:g}", f"{one.published_milliseconds * (1 + errors[one.name]):.2f}",
          f"{100 * errors[one.name]:+.1f} %", "yes" if one.name in fitted.fitted else "no"] for one in study.published],
    )  # fmt: skip
    yield Figure(draw_fit(fitted, study.published), "The GPU's roofline beside the published times.")
    yield Paragraph(
        "The implied framework is what the source paper's ratios say of its own baseline: Dyn-Arch, with "
        f"{cases.THEIR_PES:,} PEs, is {cases.THEIR_DYNAMIC_SPEED} times as fast as the GPU. At "
        f"{cases.ASSUMED_CLOCK / 1e6:.0f} MHz, a clock that we assume, and with every PE at work, the GPU does "
        f"{cases.IMPLIED_OPERATIONS / TERA:.2f} TFLOP/s, "
        f"{100 * cases.IMPLIED_OPERATIONS / V100_OPERATIONS:.1f} % of its peak. This is implied. Nobody has measured "
        "it. So the ratio of Dyn-Arch to the implied framework only repeats the paper's claim. Our own result is how "
        "much faster η-LSTM is than Dyn-Arch. "
        "MS1 and MS2 change its time by the share by which they change the roofline's."
    )


def _ratio(quantity: str, kind: str, row: Row) -> Value | None:
    """Pick a row's ratio of speed or energy to a kind of GPU software; None if there is none."""
    return getattr(row, quantity).get(kind)


def _speed(study: Study) -> Iterator[Block]:
    yield Heading("Milliseconds of an iteration")
    yield _table(study, lambda row: row.milliseconds, "{:.1f}")
    for kind in cases.BASELINES:
        yield Heading(f"Speed over {BASELINE_NAMES[kind]}", 3)
        yield _table(study, partial(_ratio, "speed", kind), "{:.2f}")
    yield Figure(draw_ratios(study.rows, "speed"), "Speed over the GPU, by network and case.")


def _energy(study: Study) -> Iterator[Block]:
    yield Heading("Joules of an iteration")
    yield _table(study, lambda row: row.joules, "{:.1f}")
    for kind in cases.BASELINES:
        yield Heading(f"Energy of {BASELINE_NAMES[kind]} over ours", 3)
        yield _table(study, partial(_ratio, "energy", kind), "{:.2f}")
    yield Figure(draw_ratios(study.rows, "energy"), "Energy of the GPU over ours; lines are the bands.")
    yield Paragraph(
        "Joules are counts of the cycle model times these coefficients. Bands are the 5th to the 95th of a "
        f"hundred, of {DRAWS} draws of all coefficients (triangles from low to high, seed {SEED}). Until Vivado "
        "has reported the power of the design, the figures of its logic are estimates, and so is every energy of a "
        "board."
    )
    yield Table(
        ["coefficient", "low", "nominal", "high", "unit", "basis", "source"],
        [[one.name, f"{one.low:g}", f"{one.nominal:g}", f"{one.high:g}", one.unit, one.basis, one.source]
         for one in COEFFICIENTS],
    )  # fmt: skip


def _bytes(study: Study) -> Iterator[Block]:
    for quantity, title in (("moved", "Bytes moved in an iteration"), ("footprint", "Memory footprint")):
        yield Heading(f"{title}, GB")
        rows = []
        for name in study.names:
            for case, boards, kind in SHOWN:
                row = find_row(study.rows, name, case, boards, kind)
                found = getattr(row, quantity)
                total = sum(value.value for value in found.values()) / GIGA
                kinds = ", ".join(f"{kind} {value.value / GIGA:.2f}" for kind, value in found.items())
                how = together(*(value.how for value in found.values()))
                rows.append([name, CASES[case], kinds, f"{total:.2f}" + ("" if row.fits else " (does not fit)"), how])
        yield Table(["network", "case", "by kind", "all", "how"], rows)
        yield Figure(draw_bytes(study.rows, quantity, SHOWN), f"{title}, by kind; η-LSTM + has all means.")
    yield Paragraph(
        "GPU: one copy of the weights, read in every step. Our machine, on one board: each group of channels holds "
        "the weights by rows and by columns, and reads those that do not fit its lanes for its own part of the "
        "batch. Where a case does not fit the 8 GiB of a board, the cycles are those of a board with more memory, "
        "which does not exist."
    )


def _star_note(study: Study) -> str:
    if all(densities_of(name).own for name in study.names):
        return ""
    return " A star behind a network's name: its task was not trained, and its densities are another task's."


def _table(study: Study, pick: Pick, form: str) -> Table:
    """Make a table: a row for each case, kind of GPU software and number of boards, a column for each network."""
    stars = [name if densities_of(name).own else f"{name} *" for name in study.names]
    lines = []
    for case, boards, kind in [
        *((c, 0, k) for k in cases.BASELINES for c in cases.ON_GPU),
        *((c, n, "") for n in BOARDS for c in cases.ON_BOARDS),
    ]:
        picked = [pick(find_row(study.rows, name, case, boards, kind)) for name in study.names]
        found = [value for value in picked if value is not None]
        if len(found) < len(picked):
            continue
        where = boards_text(boards) if boards else BASELINE_NAMES[kind]
        lines.append(
            [CASES[case], where, *(one.text(form) for one in found), form.format(mean(found).value), mean(found).how]
        )
    return Table(["case", "on", *stars, "mean", "how"], lines)
