"""``eta-lstm train``."""

from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.commands.devices import open_named
from etalstm.train.loop import Trainer
from etalstm.train.progress import ProgressReport
from etalstm.train.settings import Settings


def train(
    dataset: Annotated[str, Option(help="digits or pydoc")],
    out: Annotated[Path, Option(help="Folder for metrics.jsonl and checkpoint.safetensors")],
    device: Annotated[str, Option(help="What trains")] = Settings.device,
    preset: Annotated[str, Option(help="Configuration of the accelerator")] = Settings.preset,
    hidden: Annotated[int, Option(help="Units of a layer")] = Settings.hidden,
    layers: Annotated[int, Option(help="LSTM layers")] = Settings.layers,
    batch: Annotated[int, Option(help="Sequences of an iteration")] = Settings.batch,
    steps: Annotated[int | None, Option(help="Steps of an iteration [default: the data set's]")] = Settings.steps,
    embedding: Annotated[int, Option(help="Size of a token's vector")] = Settings.embedding,
    epochs: Annotated[int, Option(help="Passes over the training split")] = Settings.epochs,
    iterations: Annotated[int | None, Option(help="At most so many iterations")] = Settings.iterations,
    lr: Annotated[float, Option(help="Learning rate")] = Settings.learning_rate,
    momentum: Annotated[float, Option(help="Momentum")] = Settings.momentum,
    clip: Annotated[float, Option(help="Largest norm of the gradient, 0 for any")] = Settings.clip,
    weight_decay: Annotated[float, Option(help="Weight decay")] = Settings.weight_decay,
    seed: Annotated[int, Option(help="Of first weights and order")] = Settings.seed,
    evaluation_batches: Annotated[
        int | None, Option(help="At most so many batches of an evaluation")
    ] = Settings.evaluation_batches,
    checkpoint_every: Annotated[
        int | None, Option(help="Iterations between checkpoints [default: only after epochs and at the end]")
    ] = Settings.checkpoint_every,
    resume: Annotated[bool, Option("--resume", help="Go on from the checkpoint in the folder")] = False,
) -> None:
    """Train an LSTM on a data set."""
    settings = Settings(
        dataset, device, preset, hidden, layers, batch, steps, embedding, epochs, iterations,
        lr, momentum, clip, weight_decay, seed, evaluation_batches, checkpoint_every,
    )  # fmt: skip
    with open_named(device, preset) as opened:
        trainer = Trainer(settings, opened, out, resume)
        with ProgressReport(trainer.total_iterations) as report:
            trainer.run(report)
