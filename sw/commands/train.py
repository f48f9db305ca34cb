"""``eta-lstm train``."""

from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.commands.devices import ARCHITECTURE_HELP, open_named
from etalstm.commands.options import SLICES_HELP, number_or_off, slices_or_auto
from etalstm.device import OffloadDevice
from etalstm.storage import read_thresholds
from etalstm.train.loop import Trainer
from etalstm.train.progress import ProgressReport
from etalstm.train.settings import Settings


def train(
    dataset: Annotated[str, Option(help="digits, pydoc, trec or ptb")],
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
    decay: Annotated[float, Option(help="An epoch's learning rate over that of the one before")] = Settings.decay,
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
    data: Annotated[Path | None, Option(help="Directory of the data set's files (trec, ptb)")] = None,
    theta: Annotated[str, Option(help="Drop local gradients below: one number, or six, for i,f,g,o,s,r")] = "0",
    storage: Annotated[
        str | None,
        Option(
            help="What cells keep: dense, ms1, ms1-bf16, auto (the smaller) or auto-fastest "
            "[default: ms1 with a theta or delta target, else dense]"
        ),
    ] = Settings.storage,
    ms2: Annotated[str, Option(help="Skip cells predicted to add less than this share of the largest, or off")] = "off",
    delta_target: Annotated[
        str, Option(help="Leave this share of the gates' gradients, the largest, for the products; or off")
    ] = "off",
    architecture: Annotated[str, Option(help=ARCHITECTURE_HELP)] = Settings.architecture,
    memory_budget: Annotated[
        int | None,
        Option(help="Bytes of the device's memory (not golden's); what cells keep beyond it goes to the host and back"),
    ] = Settings.memory_budget,
    slices: Annotated[str, Option(help=f"{SLICES_HELP}; auto: what the device uses best")] = str(Settings.slices),
    offload: Annotated[
        bool, Option("--offload", help="The host runs the forward passes and streams what cells keep to the device")
    ] = False,
    resume: Annotated[bool, Option("--resume", help="Go on from the checkpoint in the folder")] = False,
) -> None:
    """Train an LSTM on a data set."""
    settings = Settings(
        dataset, device, preset, hidden, layers, batch, steps, embedding, epochs, iterations,
        lr, momentum, clip, weight_decay, seed, evaluation_batches, checkpoint_every,
        data and str(data), read_thresholds(theta), storage, number_or_off("ms2", ms2), decay, architecture,
        memory_budget, number_or_off("delta_target", delta_target), slices_or_auto(slices),
    )  # fmt: skip
    with open_named(device, preset) as opened:
        trainer = Trainer(settings, OffloadDevice(opened) if offload else opened, out, resume)
        with ProgressReport(trainer.total_iterations) as report:
            trainer.run(report)
