"""``eta-lstm study density``: what is learnt against what is kept and computed."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.data import DATASETS
from etalstm.data.dataset import CLASSIFY, LANGUAGE, TAG
from etalstm.durable import write_whole
from etalstm.network import check_size
from etalstm.train.figure import can_draw, draw
from etalstm.train.settings import OPTIMIZERS, RATES, Settings
from etalstm.train.study import FORM, OF_MS2, Reduction, is_language, markdown, run_study

SCORED = (CLASSIFY, LANGUAGE, TAG)
RUNS = "dense,ms1:0.1,ms1-bf16:0.1,ms1-bf16:0.2,ms1-bf16:0.1:0.05,ms1-bf16:0.2:0.1"


def density(
    out: Annotated[Path, Option(help="Folder for density.json, density.md and density.svg")],
    dataset: Annotated[str | None, Option(help=", ".join(DATASETS))] = None,
    data: Annotated[
        Path | None, Option(help="Directory of the data set's files; with --task a file of one's own")
    ] = None,
    task: Annotated[str | None, Option(help=f"What is learnt of that file: {', '.join(SCORED)}")] = None,
    runs: Annotated[
        str,
        Option(
            help=f"{FORM} of each kind of run, with commas between; theta is one number or six, "
            "share what is left of the gates' gradients, input_threshold and weight_format as of eta-lstm train; "
            f"then NAME=VALUE for any of {', '.join(OF_MS2)}, as of eta-lstm train, but + for commas"
        ),
    ] = RUNS,
    seeds: Annotated[int, Option(help="Runs of each kind")] = 5,
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
    clip: Annotated[float, Option(help="Largest norm of the gradient, 0 for any")] = Settings.clip,
    evaluation_batches: Annotated[
        int | None, Option(help="At most so many batches of an evaluation")
    ] = Settings.evaluation_batches,
) -> None:
    """Train over what reduces training, with several seeds; write a table and, with matplotlib, a figure.

    A folder that holds part of the study already is completed.
    """
    check_size("seeds", seeds)
    if task not in (None, *SCORED):
        raise ValueError(f"task must be one of {', '.join(SCORED)}, whose answers are right or wrong, got {task!r}")
    settings = Settings(
        dataset, hidden=hidden, layers=layers, batch=batch, steps=steps, embedding=embedding, epochs=epochs,
        iterations=iterations, optimizer=optimizer, learning_rate=lr, momentum=momentum, clip=clip,
        evaluation_batches=evaluation_batches, data=data and str(data), task=task, decay=decay,
    )  # fmt: skip
    reductions = Reduction.of_several(runs)
    for chosen in reductions:  # what cannot be is refused before anything is trained
        dataclasses.replace(settings, **dataclasses.asdict(chosen))
    out.mkdir(parents=True, exist_ok=True)
    study = run_study(
        settings, reductions, seeds, out / "density.json", lambda line: print(line, file=sys.stderr, flush=True)
    )
    page = markdown(study, seeds)
    write_whole(out / "density.md", page)
    print(page)
    if can_draw():
        draw(study, out / "density.svg", "test perplexity" if is_language(study["settings"]) else "test accuracy")
    else:
        print("no figure: matplotlib is not installed (extra `study`)", file=sys.stderr)
