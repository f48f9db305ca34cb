"""``eta-lstm study translation``: what a translation model learns against what its LSTMs keep and compute."""

import importlib
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from etalstm.cli.options import given
from etalstm.cli.studies import OUT_HELP, SEEDS_HELP, study_of
from etalstm.cli.translation import PACKAGE, package

OF_STUDY = ("out", "runs", "seeds")
RUNS = "dense,ms1-bf16:0.1"


def translation(
    context: Context,
    out: Annotated[Path, Option(help=OUT_HELP)],
    data: Annotated[Path, Option(help="Directory of the sentence pairs, as of eta-lstm translate train")],
    source: Annotated[str, Option(help="Language that is read")],
    target: Annotated[str, Option(help="Language that is written")],
    runs: Annotated[
        str, Option(help="policy:theta::share:input_threshold of each kind of run, as of eta-lstm study density")
    ] = RUNS,
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

    Defaults are those of eta-lstm translate train. A folder that holds part of the study already is completed.
    """
    parts = package()
    of_study = importlib.import_module(f"{PACKAGE}.study")
    chosen = {name: value for name, value in given(context).items() if name not in OF_STUDY}
    settings = parts.settings.Settings(**chosen | {"data": str(data.absolute())})
    study_of(of_study.Translation(), settings, runs, seeds, out)
