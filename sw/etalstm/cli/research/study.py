"""``eta-lstm research study``: train many times and compare, and what is made of such studies."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from etalstm.cli.options import refuse
from etalstm.cli.output import say, with_extra
from etalstm.cli.parser import given
from etalstm.cli.research.profile import RUNS
from etalstm.cli.research.translate import package
from etalstm.data import DATASETS, TASKS
from etalstm.host.drawing import can_draw
from etalstm.host.durable import write_whole
from etalstm.network.cells.lstm import LSTM
from etalstm.network.shape import NetworkShape, check_size
from etalstm.research.paper.densities import PATH
from etalstm.research.studies.page import draw, draw_sizes
from etalstm.research.studies.page import markdown as page_of_study
from etalstm.research.studies.reduction import FORM, OF_MS2, Reduction
from etalstm.research.studies.several import USES, choose_all, read_sizes, rows_by_size
from etalstm.research.studies.several import markdown as page_of_sizes
from etalstm.research.studies.shrinking import FILE, ShrunkRun, read_runs, write_runs
from etalstm.research.studies.shrinking import Network as ShrunkNetwork
from etalstm.research.studies.shrinking_page import draw_runs, markdown
from etalstm.research.studies.study import run_study
from etalstm.research.studies.subject import Network, Subject
from etalstm.research.translate_settings import TranslationSettings
from etalstm.train.settings import OPTIMIZERS, RATES, Settings

OUT_HELP = "Folder for density.json, density.md and density.svg"
SEEDS_HELP = "Runs of each kind"


def study_of(subject: Subject, settings, runs: str, seeds: int, out: Path) -> None:
    """Train what a folder's study lacks; write its table and, with matplotlib, its figure.

    `settings`: of all runs, as the subject has them. `runs`: as :meth:`Reduction.of_several` reads it. Raises
    ``ValueError``, naming the value that cannot be.
    """
    check_size("seeds", seeds)
    study = run_study(subject, settings, Reduction.of_several(runs), seeds, out / "density.json", say)
    page = page_of_study(subject, study, seeds)
    write_whole(out / "density.md", page)
    print(page)
    if _can_draw():
        draw(study, out / "density.svg", subject.score(study["settings"]))


def _can_draw() -> bool:
    if not can_draw():
        say("no figure: matplotlib is not installed (extra `study`)")
    return can_draw()


KINDS = "dense,ms1:0.1,ms1-bf16:0.1,ms1-bf16:0.2,ms1-bf16:0.1:0.05,ms1-bf16:0.2:0.1"


def density(
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
            f"then NAME=VALUE for any of {', '.join(OF_MS2)}, as of eta-lstm train, but + for commas"
        ),
    ] = KINDS,
    seeds: Annotated[int, Option(help=SEEDS_HELP)] = 5,
    hidden: Annotated[int, Option(help="Units of a layer")] = Settings.hidden,
    layers: Annotated[int, Option(help="LSTM layers")] = Settings.layers,
    batch: Annotated[int, Option(help="Sequences of an iteration")] = Settings.batch,
    steps: Annotated[int | None, Option(help="Steps of an iteration [default: the data set's]")] = Settings.steps,
    embedding: Annotated[int, Option(help="Size of a token's vector")] = Settings.embedding,
    epochs: Annotated[int, Option(help="Passes over the training split")] = Settings.epochs,
    iterations: Annotated[int | None, Option(help="At most so many iterations")] = Settings.iterations,
    optimizer: Annotated[str, Option(help=", ".join(OPTIMIZERS))] = Settings.optimizer,
    lr: Annotated[
        float | None, Option(help=f"Learning rate [default: {', '.join(f'{n} {r:g}' for n, r in RATES.items())}]")
    ] = Settings.learning_rate,
    decay: Annotated[float, Option(help="An epoch's learning rate over that of the one before")] = Settings.decay,
    momentum: Annotated[float, Option(help="Momentum")] = Settings.momentum,
    dropout: Annotated[float, Option(help="Share of the outputs between layers that is dropped")] = Settings.dropout,
    clip: Annotated[float, Option(help="Largest norm of the gradient, 0 for any")] = Settings.clip,
    evaluation_batches: Annotated[
        int | None, Option(help="At most so many batches of an evaluation")
    ] = Settings.evaluation_batches,
) -> None:
    """Train over what reduces training, with several seeds; write a table and, with matplotlib, a figure.

    A folder that holds part of the study already is completed.
    """
    settings = Settings(
        dataset, hidden=hidden, layers=layers, batch=batch, steps=steps, embedding=embedding, epochs=epochs,
        iterations=iterations, optimizer=optimizer, learning_rate=lr, momentum=momentum, clip=clip,
        evaluation_batches=evaluation_batches, data=None if data is None else str(data), task=task, decay=decay,
        dropout=dropout,
    )  # fmt: skip
    study_of(Network(), settings, runs, seeds, out)


OF_STUDY = ("out", "runs", "seeds")
TRANSLATION_KINDS = "dense,ms1-bf16:0.1"


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
    hidden: Annotated[int | None, Option(help="Units of a layer")] = None,
    embedding: Annotated[int | None, Option(help="Size of a token's vector")] = None,
    layers: Annotated[int | None, Option(help="LSTM layers of the encoder, and of the decoder")] = None,
    attention: Annotated[str | None, Option(help="additive or dot")] = None,
    dropout: Annotated[float | None, Option(help="Share dropped in training")] = None,
    batch: Annotated[int | None, Option(help="Pairs of an iteration")] = None,
    epochs: Annotated[int | None, Option(help="Passes over the training pairs")] = None,
    learning_rate: Annotated[float | None, Option("--lr", help="Of Adam, at the start")] = None,
    clip: Annotated[float | None, Option(help="Largest norm of the gradient")] = None,
    lower: Annotated[bool, Option("--lower", help="Texts in lower case")] = False,
    sentences: Annotated[int | None, Option(help="The first so many pairs of each split [default: all]")] = None,
) -> None:
    """Train a translation model over what reduces training, with several seeds; write a table and a figure.

    Defaults are those of eta-lstm research translate train. A folder that holds part of the study already is completed.
    """
    parts = package()
    chosen = {name: value for name, value in given(context).items() if name not in OF_STUDY}
    settings = TranslationSettings(**chosen | {"data": str(data.absolute())})
    study_of(parts.trainer.Translation(), settings, runs, seeds, out)


def choose(
    studies: Annotated[Path, Option(help="Folder with a folder for each study, as docs/density")],
    out: Annotated[Path, Option(help="File to write; the installed one is what eta-lstm research paper reads")] = PATH,
) -> None:
    """Choose of each study the strongest reductions whose validation score is within its tolerance of dense runs."""
    found = choose_all(studies, studies.as_posix())
    write_whole(out, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    for name, chosen in found["sets"].items():
        for use in ("dense", *USES):
            one = chosen[use]
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
    page = markdown(found, f"eta-lstm research study compress RUN ...{timed} --out DIR")
    write_whole(out / "shrinking.md", page)
    print(page)
    if _can_draw():
        draw_runs(found, out / "shrinking.svg")


def _time(runs: list[ShrunkRun], steps: int, turns: int) -> None:
    """Put down how long an iteration of the LSTMs that are shown takes on this computer. All layers take turns."""
    timing = with_extra("etalstm.research.profile_host")
    for batch in sorted({run.settings["batch"] for run in runs}):
        shown = [one for run in runs if _timed(run, batch) for _, one in run.shown]
        layers = sorted({layer for one in shown for layer in one.layers()})
        seconds = timing.seconds_of([NetworkShape(*layer) for layer in layers], batch, steps, turns)
        by_layer = dict(zip(layers, seconds, strict=True))
        for one in shown:
            one.milliseconds = _milliseconds(one, by_layer)


def _timed(run: ShrunkRun, batch: int) -> bool:
    """Tell whether a run has this batch, and LSTMs of one direction as PyTorch has them."""
    settings = run.settings
    return settings["batch"] == batch and settings["cell"] == LSTM.name and not settings["bidirectional"]


def _milliseconds(network: ShrunkNetwork, by_layer: dict[tuple[int, int], float]) -> float:
    return 1e3 * sum(by_layer[layer] for layer in network.layers())
