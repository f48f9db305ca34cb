"""``eta-lstm study density``: what is learnt against what is kept and computed."""

from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.cli.studies import OUT_HELP, SEEDS_HELP, study_of
from etalstm.data import DATASETS, TASKS
from etalstm.research.studies.reduction import FORM, OF_MS2
from etalstm.research.studies.subject import Network
from etalstm.train.settings import OPTIMIZERS, RATES, Settings

RUNS = "dense,ms1:0.1,ms1-bf16:0.1,ms1-bf16:0.2,ms1-bf16:0.1:0.05,ms1-bf16:0.2:0.1"


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
    ] = RUNS,
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
        evaluation_batches=evaluation_batches, data=data and str(data), task=task, decay=decay,
        dropout=dropout,
    )  # fmt: skip
    study_of(Network(), settings, runs, seeds, out)
