"""The page of the comparison, block by block."""

from collections.abc import Callable, Iterator
from functools import partial

from etalstm.network.benchmarks import V100_OPERATIONS, Benchmark
from etalstm.research.paper import cases
from etalstm.research.paper.cases import CASES, GIGA, TERA, Row, Value, find_row, together, work_of
from etalstm.research.paper.claims import BASELINE_NAMES, CLAIMS, Finding, boards_text, findings, mean
from etalstm.research.paper.densities import densities_of
from etalstm.research.paper.document import Block, Figure, Heading, Paragraph, Table, prose
from etalstm.research.paper.energy import COEFFICIENTS, DRAWS, SEED
from etalstm.research.paper.figures import draw_bytes, draw_fit, draw_headline, draw_ratios
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
    yield Figure("headline", draw_headline(study.rows), prose("headline").text)
    yield prose("made", command=command, count=len(study.names), names=", ".join(study.names))
    known = all(densities_of(name).own for name in study.names)
    yield prose("letters", letters=letters, star="" if known else prose("star").text)
    yield Heading("Where η-LSTM wins, and where not")
    one, boards = study.board_operations / TERA, BOARDS[-1]
    yield prose("peaks", one=one, boards=boards, all=boards * one, gpu=V100_OPERATIONS / TERA)
    for kind in cases.BASELINES:
        for boards in BOARDS:
            yield _verdict(study, kind, boards)
    yield _over_machines(study)
    yield prose("factors")
    columns = ["network", "peak over peak", "Dyn-Arch, of its peak", "GPU, of its peak", "η-LSTM over Dyn-Arch"]
    columns += ["speed", "groups of channels, Dyn-Arch and η-LSTM"]
    yield Table(columns, [_factors(study, one) for one in study.benchmarks])


def _over_machines(study: Study) -> Paragraph:
    texts = []
    for case in (cases.DYNAMIC, STATIC, INFERENCE):
        keys = (case, 1, ""), (cases.ETA, 1, "")
        pairs = [[find_row(study.rows, name, *key).milliseconds.value for key in keys] for name in study.names]
        ratios = [theirs / ours for theirs, ours in pairs]
        texts.append(f"{CASES[case]} {sum(ratios) / len(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return prose("machines", ours=CASES[cases.ETA], theirs=", ".join(texts))


def _factors(study: Study, benchmark: Benchmark) -> list[str]:
    """Give the factors of one board's speed over tuned cuDNN, and that speed."""
    keys = (cases.DYNAMIC, 1, ""), (cases.ETA, 1, ""), (cases.BASELINE, 0, cases.CUDNN)
    rows = [find_row(study.rows, benchmark.name, *key) for key in keys]
    dynamic, eta, base = (row.milliseconds.value / 1e3 for row in rows)
    work = operations(work_of(benchmark, cases.BASELINE))
    ours, theirs = work / dynamic / study.board_operations, work / base / V100_OPERATIONS
    factors = study.board_operations / V100_OPERATIONS, ours, theirs, dynamic / eta, base / eta
    return [benchmark.name, *(f"{factor:.3f}" for factor in factors), f"{rows[0].groups}, {rows[1].groups}"]


def _verdict(study: Study, kind: str, boards: int) -> Paragraph:
    rows = [row for row in study.rows if row.case == cases.ETA and row.boards == boards]
    speed, energy = [row.speed[kind] for row in rows], [row.energy[kind] for row in rows]
    means = {"speed": mean(speed).text("{:.3g}"), "energy": mean(energy).text("{:.3g}"), "all": len(rows)}
    faster, saves = sum(one.value > 1 for one in speed), sum(one.band[0] > 1 for one in energy)
    setting = {"baseline": BASELINE_NAMES[kind], "boards": boards_text(boards)}
    return prose("verdict", **setting, **means, faster=faster, saves=saves)


def _claims(study: Study) -> Iterator[Block]:
    yield Heading("The claims")
    yield prose("claims")
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
    of_v100 = {"bandwidth": V100_BANDWIDTH / GIGA, "peak": V100_OPERATIONS / TERA}
    yield prose("gpu", **of_v100, reached=roofline.efficiency, step=1e6 * roofline.step_seconds)
    errors = fitted.fitted | fitted.others
    yield Table(
        ["DeepBench", "published, ms", "roofline, ms", "error", "fitted"],
        [[one.name, f"{one.published_milliseconds:g}", f"{one.published_milliseconds * (1 + errors[one.name]):.2f}",
          f"{100 * errors[one.name]:+.1f} %", "yes" if one.name in fitted.fitted else "no"] for one in study.published],
    )  # fmt: skip
    yield Figure("roofline", draw_fit(fitted, study.published), "The GPU's roofline beside the published times.")
    does, share = cases.IMPLIED_OPERATIONS / TERA, 100 * cases.IMPLIED_OPERATIONS / V100_OPERATIONS
    theirs = {"pes": cases.THEIR_PES, "speed": cases.THEIR_DYNAMIC_SPEED, "clock": cases.ASSUMED_CLOCK / 1e6}
    yield prose("implied", **theirs, does=does, share=share)


def _ratio(quantity: str, kind: str, row: Row) -> Value | None:
    """Pick a row's ratio of speed or energy to a kind of GPU software; None if there is none."""
    return getattr(row, quantity).get(kind)


def _speed(study: Study) -> Iterator[Block]:
    yield Heading("Milliseconds of an iteration")
    yield _table(study, lambda row: row.milliseconds, "{:.1f}")
    for kind in cases.BASELINES:
        yield Heading(f"Speed over {BASELINE_NAMES[kind]}", 3)
        yield _table(study, partial(_ratio, "speed", kind), "{:.2f}")
    yield Figure("speed", draw_ratios(study.rows, "speed"), "Speed over the GPU, by network and case.")


def _energy(study: Study) -> Iterator[Block]:
    yield Heading("Joules of an iteration")
    yield _table(study, lambda row: row.joules, "{:.1f}")
    for kind in cases.BASELINES:
        yield Heading(f"Energy of {BASELINE_NAMES[kind]} over ours", 3)
        yield _table(study, partial(_ratio, "energy", kind), "{:.2f}")
    yield Figure("energy", draw_ratios(study.rows, "energy"), "Energy of the GPU over ours; lines are the bands.")
    yield prose("joules", draws=DRAWS, seed=SEED)
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
        yield Figure(quantity, draw_bytes(study.rows, quantity, SHOWN), f"{title}, by kind; η-LSTM + has all means.")
    yield prose("bytes")


def _table(study: Study, pick: Pick, form: str) -> Table:
    """Make a table: a row for each case, kind of GPU software and number of boards, a column for each network."""
    stars = [name if densities_of(name).own else f"{name} *" for name in study.names]
    lines = []
    keys = [(case, 0, kind) for kind in cases.BASELINES for case in cases.ON_GPU]
    keys += [(case, boards, "") for boards in BOARDS for case in cases.ON_BOARDS]
    for case, boards, kind in keys:
        picked = [pick(find_row(study.rows, name, case, boards, kind)) for name in study.names]
        found = [value for value in picked if value is not None]
        if len(found) < len(picked):
            continue
        where = boards_text(boards) if boards else BASELINE_NAMES[kind]
        average = mean(found)
        lines.append([CASES[case], where, *(one.text(form) for one in found), form.format(average.value), average.how])
    return Table(["case", "on", *stars, "mean", "how"], lines)
