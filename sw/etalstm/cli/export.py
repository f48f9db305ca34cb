"""``eta-lstm export``."""

from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.cli.using import Run, Which
from etalstm.train import load
from etalstm.train.export import FORMATS


def export(
    run: Run,
    out: Annotated[Path, Option("--out", "-o", help=f"File to write; its ending says how: {', '.join(FORMATS)}")],
    checkpoint: Which = None,
) -> None:
    """Write a trained network's parameters with PyTorch's names."""
    with load(run, checkpoint=checkpoint) as model:
        model.export(out)
