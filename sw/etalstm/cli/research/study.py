"""``eta-lstm research study``: train many times and compare; choose from studies, and set them beside each other."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from etalstm.cli.declared import chosen, with_settings
from etalstm.cli.options import refuse
from etalstm.cli.output import say, with_extra
from etalstm.cli.research.profile import RUNS
from etalstm.cli.research.translate import import_package
from etalstm.data import DATASETS, TASKS
from etalstm.host.drawing import can_draw, check_can_draw
from etalstm.host.durable import write_whole
from etalstm.network.cells.lstm import LSTM
from etalstm.network.shape import NetworkShape, check_size
from etalstm.research.paper.densities import INTEGER_PATH, PATH
from etalstm.research.studies.figures import draw_sizes, draw_study
from etalstm.research.studies.page import markdown as page_of_study
from etalstm.research.studies.reduction import FORM, NAMED, Reduction
from etalstm.research.studies.several import OF_INTEGERS, USES, choose_all, read_sizes, rows_by_size
from etalstm.research.studies.several import markdown as page_of_sizes
from etalstm.research.studies.shrinking import FILE, ShrunkRun, read_runs, write_runs
from etalstm.research.studies.shrinking_page import draw_runs, markdown
from etalstm.research.studies.study import read_study, run_study
from etalstm.research.studies.subject import SCORES, Network, Subject, score_name
from etalstm.research.translate_settings import PANELS as OF_TRANSLATION
from etalstm.research.translate_settings import TranslationSettings
from etalstm.train.settings import PANELS, Settings

OUT_HELP = "Folder for density.json, density.md and density.svg"
SEEDS_HELP = "Runs of each kind"


def study_of(subject: Subject, settings, runs: str, seeds: int, out: Path) -> None:
    """Train the runs that a folder's study lacks; write its table and, with matplotlib, its figure.

    `settings`: of all runs, of the subject's class. `runs`: as :meth:`Reduction.of_several` reads it. Raises
    ``ValueError``, naming the value that is refused.
    """
    check_size("seeds", seeds)
    study = run_study(subject, settings, Reduction.of_several(runs), seeds, out / "density.json", say)
    picture = "density.svg" if _can_draw() else ""
    page = page_of_study(subject, study, seeds, picture)
    write_whole(out / "density.md", page)
    if picture:
        _draw(out)
    print(page)


def draw(studies: Annotated[list[Path], Argument(help=f"Folders with density.json or {FILE}")]) -> None:
    """Draw the figures of studies anew from their files. Nothing is trained."""
    check_can_draw()
    for folder in studies:
        print(_draw(folder))


def _draw(folder: Path) -> Path:
    """Draw the figure of the study in a folder beside its file, and give the figure's path."""
    if (folder / FILE).is_file():
        draw_runs(read_runs([folder / FILE]), path := folder / "shrinking.svg")
    else:
        study = read_study(folder / "density.json")
        draw_study(study, path := folder / "density.svg", SCORES[score_name(study["settings"])])
    return path


def _can_draw() -> bool:
    if not can_draw():
        say("no figure: matplotlib is not installed (extra `study`)")
    return can_draw()


KINDS = "dense,ms1:0.1,ms1-bf16:0.1,ms1-bf16:0.2,ms1-bf16:0.1:0.5,ms1-bf16:0.1:0.8"
TRAINED = (
    "hidden layers batch steps embedding epochs iterations optimizer learning_rate decay momentum dropout clip "
    "evaluation_batches"
)


@with_settings(Settings, PANELS, TRAINED)
def density(
    context: Context,
    out: Annotated[Path, Option(help=OUT_HELP)],
    dataset: Annotated[str | None, Option(help=", ".join(DATASETS))] = None,
    data: Annotated[
        Path | None, Option(help="Directory of the data set's files; with --task a file of one's own")
    ] = None,
    task: Annotated[str | None, Option(help=f"What is learnt of that file: {', '.join(TASKS)}")] = None,
    runs: Annotated[
        str,
        Option(
            help=f"{FORM} of each kind of run, with commas between; theta is one number or six, "
            "share what is left of the gates' gradients, input_threshold and weight_format as of eta-lstm train; "
            f"then NAME=VALUE for any of {', '.join(NAMED)}, as of eta-lstm train, but + for commas"
        ),
    ] = KINDS,
    seeds: Annotated[int, Option(help=SEEDS_HELP)] = 5,
    **_,
) -> None:
    """Train over what reduces training, with several seeds; write a table and, with matplotlib, a figure.

    A folder that holds part of the study already is completed.
    """
    study_of(Network(), Settings(**chosen(context, Settings)), runs, seeds, out)


TRANSLATION_KINDS = "dense,ms1-bf16:0.1"
TRANSLATED = "hidden embedding layers attention dropout batch epochs learning_rate clip lower sentences"


@with_settings(TranslationSettings, OF_TRANSLATION, TRANSLATED)
def translation(
    context: Context,
    out: Annotated[Path, Option(help=OUT_HELP)],
    data: Annotated[Path, Option(help="Directory of the sentence pairs, as of eta-lstm research translate train")],
    source: Annotated[str, Option(help="Language that is read")],
    target: Annotated[str, Option(help="Language that is written")],
    runs: Annotated[
        str,
        Option(help="policy:theta::share:input_threshold of each kind of run, as of eta-lstm research study density"),
    ] = TRANSLATION_KINDS,
    seeds: Annotated[int, Option(help=SEEDS_HELP)] = 3,
    **_,
) -> None:
    """Train a translation model over what reduces training, with several seeds; write a table and a figure.

    Defaults are those of eta-lstm research translate train. A folder that holds part of the study already is completed.
    """
    package = import_package()
    settings = TranslationSettings(**chosen(context, TranslationSettings))
    study_of(package.trainer.Translation(), settings, runs, seeds, out)


def choose(
    studies: Annotated[Path, Option(help="Folder with a folder for each study, as docs/density")],
    out: Annotated[
        Path | None, Option(help="File to write [default: the installed one, which eta-lstm research reads]")
    ] = None,
    integers: Annotated[bool, Option("--integers", help="Of runs with int8, for eta-lstm research integers")] = False,
) -> None:
    """Choose of each study the strongest reductions whose validation score is within its tolerance of dense runs."""
    uses, installed = (OF_INTEGERS, INTEGER_PATH) if integers else (USES, PATH)
    found = choose_all(studies, studies.as_posix(), uses)
    write_whole(out or installed, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    for name, of_uses in found["sets"].items():
        for use in ("dense", *uses):
            one = of_uses[use]
            text = f"{one['run']}, seeds: {len(one['seeds'])}, {one['score']:g}" if one else "none"
            print(f"{name}, {use}: {text}")


def sizes(
    studies: Annotated[list[Path], Argument(help="Folders of studies that differ in --hidden and --embedding alone")],
    out: Annotated[Path, Option(help="Folder for sizes.md and sizes.svg")],
) -> None:
    """Set studies of several sizes beside each other: a table, and with matplotlib a figure."""
    page = page_of_sizes(studies)
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "sizes.md", page)
    print(page)
    if can_draw():
        draw_sizes(rows_by_size(read_sizes(studies)), out / "sizes.svg")


def compress(
    context: Context,
    runs: Annotated[
        list[Path], Argument(help=f"Folders of runs of eta-lstm research compress, or {FILE} of earlier studies")
    ],
    out: Annotated[Path, Option(help=f"Folder for {FILE}, shrinking.md and shrinking.svg")],
    host: Annotated[bool, Option("--host", help="Time the networks on this computer, too, with PyTorch")] = False,
    steps: Annotated[int, Option(help="With --host: steps of an iteration")] = 35,
    turns: Annotated[int, Option(help="With --host: turns of each size; medians count")] = RUNS,
) -> None:
    """Set runs of compress beside each other: how many times smaller, how much worse, for each step and seed."""
    if not host:
        refuse(context, "only used with --host", "steps", "turns")
    found = read_runs(runs)
    if host:
        _time(found, check_size("steps", steps), check_size("turns", turns))
    out.mkdir(parents=True, exist_ok=True)
    write_runs(found, out / FILE)
    timed = f" --host --steps {steps} --turns {turns}" if host else ""
    picture = "shrinking.svg" if _can_draw() else ""
    page = markdown(found, f"eta-lstm research study compress RUN ...{timed} --out DIR", picture)
    write_whole(out / "shrinking.md", page)
    print(page)
    if picture:
        _draw(out)


def _time(runs: list[ShrunkRun], steps: int, turns: int) -> None:
    """Set the milliseconds that an iteration of the shown LSTMs takes on this computer. All layers take turns."""
    timing = with_extra("etalstm.nn.bench")
    for batch in sorted({run.settings["batch"] for run in runs}):
        shown = [one for run in runs if _timed(run, batch) for _, one in run.shown]
        layers = sorted({layer for one in shown for layer in one.layers()})
        seconds = timing.seconds_of([NetworkShape(*layer) for layer in layers], batch, steps, turns)
        by_layer = dict(zip(layers, seconds, strict=True))
        for one in shown:
            one.milliseconds = 1e3 * sum(by_layer[layer] for layer in one.layers())


def _timed(run: ShrunkRun, batch: int) -> bool:
    """Tell whether a run has this batch, and LSTMs of one direction as PyTorch has them."""
    settings = run.settings
    return settings["batch"] == batch and settings["cell"] == LSTM.name and not settings["bidirectional"]
