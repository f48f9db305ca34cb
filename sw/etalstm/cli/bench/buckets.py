"""``eta-lstm bench buckets``: padding and cycles that length buckets save."""

import json
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option

from etalstm.cli.devices import open_machine
from etalstm.data import DataSet
from etalstm.data.buckets import NONE, read_buckets
from etalstm.data.dataset import padding
from etalstm.data.lengths import READERS, sources, spread, static_buckets
from etalstm.device import Device, TrainingShape
from etalstm.network.execution import PRESET_HELP
from etalstm.network.shape import NetworkShape, check_sizes, initial_parameters
from etalstm.network.slices import AUTO


class IterationCycles:
    """Measures iterations on random numbers, in one session for all lengths of a data set.

    `batch`, `steps`: sequences B, and the most steps of one.
    """

    def __init__(self, device: Device, network: NetworkShape, batch: int, steps: int):
        shape = TrainingShape(network, batch, steps, masked=True)
        self._session, generator = device.create(shape), np.random.default_rng(0)
        self._session.load(initial_parameters(network, 0))
        self._x, self._dy = (generator.standard_normal(size, np.float32) for size in (shape.x_shape, shape.y_shape))
        self._of_whole = cache(lambda steps: self.of(steps, np.full(batch, steps)))

    def of(self, steps: int, lengths: np.ndarray) -> int:
        """Give the cycles of an iteration of so many steps, with sequences of `lengths`, (B,)."""
        self._session.forward(self._x[:steps], lengths)
        self._session.backward(self._dy[:steps])
        self._session.update(0.01, clip=1.0)
        return self._session.counters()["cycles"]

    def of_real_steps(self, lengths: np.ndarray) -> float:
        """Give the cycles of a batch without padding that has as many real steps: all sequences have the mean length.

        If the mean length is no integer, its cycles are interpolated between those of the next two integers.
        """
        mean = float(lengths.mean())
        below = int(mean)
        share = mean - below
        above = share * self._of_whole(below + 1) if share else 0
        return (1 - share) * self._of_whole(below) + above


def measured_epoch(data: DataSet, buckets: str, batch: int, count: int, cycles: IterationCycles | None) -> dict:
    """Measure an epoch of training: its batches, their steps and padding, and the cycles if they are wanted.

    ``cycles`` is the mean over `count` batches, times the number of all. ``of_real_steps`` is their cycles over those
    that their real steps alone would take.
    """
    found = data.in_buckets(read_buckets(buckets), batch)
    batches = found.epoch("train", batch, found.steps, np.random.default_rng(0))
    entry = {
        "data": data.name, "buckets": buckets, "count": max(1, len(found.buckets)), "batches": len(batches),
        "steps": sum(len(each.x) for each in batches), "padding": padding(batches),
    }  # fmt: skip
    if cycles is None:
        return entry
    chosen = spread(batches, count)
    taken = sum(cycles.of(len(each.x), each.lengths) for each in chosen)
    needed = sum(cycles.of_real_steps(each.lengths) for each in chosen)
    return entry | {"cycles": round(taken / len(chosen) * len(batches)), "of_real_steps": taken / needed}


def buckets(
    data: Annotated[
        Path | None, Option(help=f"Directory with folders of {', '.join(READERS)}, or some [default: synthetic]")
    ] = None,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    static: Annotated[
        str | None,
        Option(help="Bounds of buckets to compare with automatic ones, below the longest [default: quarters of it]"),
    ] = None,
    preset: Annotated[str | None, Option(help=f"Measure cycles, too. {PRESET_HELP}")] = None,
    inputs: Annotated[int, Option("--input", help="With --preset: inputs")] = 16,
    hidden: Annotated[int, Option(help="With --preset: units of the layer")] = 16,
    batches: Annotated[int, Option(help="With --preset: batches of an epoch that are measured")] = 8,
    as_json: Annotated[bool, Option("--json", help="Print a JSON object for each epoch")] = False,
) -> None:
    """Measure the padding of an epoch without buckets, with given ones and with automatic ones.

    The sequences of the Penn Treebank are its sentences. With a preset, measure the cycles of the simulated accelerator
    too.
    """
    network = NetworkShape(inputs, hidden)
    check_sizes(batch=batch, batches=batches)
    with nullcontext() if preset is None else open_machine(preset) as device:
        for found in sources(data):
            cycles = IterationCycles(device, network, batch, found.steps) if device else None
            for case in (NONE, static_buckets(static, found.steps), AUTO):
                entry = measured_epoch(found, case, batch, batches, cycles)
                print(json.dumps(entry) if as_json else bucket_line(entry), flush=True)


def bucket_line(entry: dict) -> str:
    """Put an epoch's measures on a line."""
    text = (
        f"{entry['data']:10s}{entry['buckets']:16s}{entry['count']:4d} buckets, {entry['batches']:6,} batches of "
        f"{entry['steps']:8,} steps, padding {entry['padding']:6.2%}"
    )
    if "cycles" in entry:
        text += f", {entry['cycles']:,} cycles, {entry['of_real_steps']:.3f} of what the real steps take"
    return text
