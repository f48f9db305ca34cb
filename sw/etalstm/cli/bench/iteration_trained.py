"""Iterations of a trained network on real batches, as each architecture: ``eta-lstm bench iteration --weights``."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from etalstm.cli.devices import open_machine
from etalstm.data import open_data
from etalstm.data.buckets import NONE
from etalstm.data.lengths import Amount
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.architecture import SWING, architecture
from etalstm.network.storage import KINDS, Storage, Usage
from etalstm.research.contenders import Contender
from etalstm.train.folder import RunFolder
from etalstm.train.settings import Settings
from etalstm.train.state import open_learner
from etalstm_hw.contract import STREAM_BLOCK

NAME = "η-LSTM"
WIDTH = 22  # of the names
MEGA = 1e6


def settings_of(run: Path, dataset: str | None, data: Path | None, **chosen: Any) -> Settings:
    """Give the settings of a run, with others on top.

    Raises ``ValueError`` if it was trained on another data set, or cells are to be skipped and it has not measured
    which matter; :class:`RunError` if the folder holds no run.

    `run`: folder of ``eta-lstm train``. `dataset`: what it must have been trained on. `data`: directory of the data
    set's files.
    """
    settings = RunFolder(run).read_settings()
    if dataset not in (None, settings.dataset):
        raise ValueError(f"{run} was trained on {settings.dataset}, not on {dataset}")
    if settings.ms2 is None and chosen.get("ms2") is not None:
        raise ValueError(f"ms2 must be off, got {chosen['ms2']}: {run} was trained without, and knows no cell's share")
    return replace(settings, **chosen if data is None else chosen | {"data": str(data)})


def measure(settings: Settings, device: HardwareDevice, run: Path, amount: Amount) -> dict:
    """Train a run's network on some batches, and measure the machine.

    A machine that skips no zeros takes the same cycles for all batches of as many steps. So it trains on one batch,
    unless it skips cells or compresses intermediates, or the run has length buckets.

    Gives a dict: ``batches``; ``cycles`` of an iteration, their mean, and of each pass in ``passes``; ``deviation``:
    the standard deviation of an iteration's cycles, None of a single one; ``pes`` shares of their time: ``utilization``
    (multiplications with a nonzero scalar), ``mac``, ``elementwise`` and each kind of lost cycle; ``footprint``,
    ``delta_density``, ``input_density``, ``cells_skipped`` (a share) and ``real`` (share of the steps that are no
    padding) of the batches; ``streams``: with compressed storage, words of the streams over :func:`least_words`, else
    None; ``bytes`` of all batches by direction and kind, and of weights those ``spared`` that were planned to be read
    but not needed.
    """
    data = open_data(settings)
    if amount.length is not None:
        settings = replace(settings, steps=amount.length, buckets=NONE)
    other = "input_threshold", "refresh", "batch", "buckets"  # no epoch of the run goes on here
    learner, _ = open_learner(settings, data, device, RunFolder(run).checkpoint, other, amount.length)
    chosen = amount.choose(learner.data, settings.batch, learner.steps)
    varies = settings.skipping is not None or learner.shape.execution.storage.compressed
    alike = not (varies or architecture(settings.architecture).skips or learner.data.buckets)
    chosen = chosen[:1] if alike else chosen
    assert settings.learning_rate is not None  # Settings puts the optimizer's there
    counts, usage = [], Usage()
    for batch in chosen:
        learner.iterate(batch, settings.learning_rate)
        counts.append(learner.session.counters())
        usage += sum(learner.session.usage(), Usage())
    config, storage = device.accelerator.config, learner.shape.execution.storage
    each = [count["cycles"] for count in counts]
    cycles, number = sum(each), len(counts)

    def added(name):
        return {key: sum(count[name][key] for count in counts) for key in counts[0][name]}

    return {
        "batches": number,
        "cycles": round(cycles / number),
        "deviation": float(np.std(each, ddof=1)) if number > 1 else None,
        "passes": {name: round(count / number) for name, count in added("passes").items()},
        "utilization": usage.products / (config.macs * cycles),
        "pes": {kind: count / (config.channels * cycles) for kind, count in added("channel_cycles").items()},
        "footprint": usage.footprint,
        "delta_density": usage.delta_density,
        "input_density": usage.input_density,
        "cells_skipped": usage.skipped / usage.cells,
        "real": usage.real / usage.elements,
        "streams": usage.words / least_words(usage, storage) if storage.compressed else None,
        "bytes": {name: added(f"{name}_bytes") for name in ("read", "write", "spared")},
    }


def least_words(usage: Usage, storage: Storage) -> float:
    """Give the words that masks and kept elements of P take, where no cell is skipped."""
    masks = len(KINDS) * usage.elements / STREAM_BLOCK
    return masks + sum(usage.kept) / (2 if storage.layer(0).bf16 else 1)


def trained_iteration(
    weights: Path, dataset: str | None, data: Path | None, amount: Amount, against: Sequence[Contender], stall: float,
    as_json: bool, **chosen,
) -> None:  # fmt: skip
    """Print the measures of η-LSTM as it was `chosen`, and of other machines on the same batches.

    Parameters
    ----------
    weights : Path                     folder of ``eta-lstm train``
    against : sequence of Contender    the other machines, with or without MS1 and MS2
    stall : float                      probability that a memory handshake waits a cycle
    as_json : bool
        One object at the end, instead of lines as soon as a machine is measured. ``speedup``: the machine's cycles over
        those of η-LSTM. ``speedup_on_real_steps``: the same, with cycles on padding left out. Machines that skip zeros
        have none; of the others' cycles the share of real steps in η-LSTM's batches counts.
    """
    settings = settings_of(weights, dataset, data, **chosen)
    found: dict[str, dict] = {}
    others = {one.text: (one.name, one.settings(settings)) for one in against}
    if not as_json:
        print(heading(settings), flush=True)
    with open_machine(settings.preset, stall=stall) as device:
        for key, (name, each) in ({SWING.name: (NAME, settings)} | others).items():
            entry = measure(each, device, weights, amount)
            whole = found.get(SWING.name, entry)
            ratio = entry["cycles"] / whole["cycles"]
            real = 1.0 if architecture(each.architecture).skips else whole["real"]
            found[key] = entry | {"speedup": ratio, "speedup_on_real_steps": ratio * real}
            if not as_json:
                print(line(name, found[key]), flush=True)
    if as_json:
        print(json.dumps({"preset": settings.preset, "architectures": found}))


def heading(settings: Settings) -> str:
    """Write what is measured, and headings above the columns of :func:`line`."""
    theta = settings.theta if isinstance(settings.theta, tuple) else (settings.theta,) * len(KINDS)
    return (
        f"{settings.dataset}, hidden {settings.hidden}, layers {settings.layers}, batch {settings.batch}, "
        f"storage {settings.policy}, theta {max(theta):g}; cycles of an iteration, shares of the PEs' time\n"
        f"{'':{WIDTH}s}{'cycles':>13s}{'forward':>13s}{'backward':>13s}{'update':>11s}"
        f"{'useful':>8s}{'MAC':>8s}{'EW':>8s}{'lost':>8s}   η is faster by, on real steps"
    )


def line(name: str, entry: dict) -> str:
    """Put one machine's measures on lines."""
    passes, pes = entry["passes"], entry["pes"]
    lost = 1 - pes["mac"] - pes["elementwise"]
    shares = "".join(f"{share:8.3f}" for share in (entry["utilization"], pes["mac"], pes["elementwise"], lost))
    cycles = "".join(f"{passes[key]:{width},}" for key, width in (("forward", 13), ("backward", 13), ("update", 11)))
    faster = f"{entry['speedup']:.2f}, {entry['speedup_on_real_steps']:.2f}"
    lines = [f"{entry['cycles']:13,}{cycles}{shares}   {faster}"]
    if entry["batches"] > 1:
        lines.append(f"mean of {entry['batches']} batches, standard deviation {entry['deviation']:,.0f} cycles")
    lines.append(
        f"x and h sent {entry['input_density']:.3f}, δ nonzero {entry['delta_density']:.3f}, real steps "
        f"{entry['real']:.3f}, cells skipped {entry['cells_skipped']:.3f}, footprint {entry['footprint']:.3f}"
    )
    lines.append(f"{_moved(entry)} moved in an iteration")
    if entry["streams"]:
        lines.append(f"streams {entry['streams']:.3f} of their masks and kept words")
    if spared := entry["bytes"]["spared"]["weights"]:
        planned = spared + entry["bytes"]["read"]["weights"]
        lines.append(f"weights not read {spared:,} of {planned:,} bytes")
    return "\n".join(f"{name if number == 0 else '':{WIDTH}s}{text}" for number, text in enumerate(lines))


def _moved(entry: dict) -> str:
    """Write how many bytes of each kind an iteration reads and writes."""
    read, written = entry["bytes"]["read"], entry["bytes"]["write"]
    each = {kind: (read[kind] + written[kind]) / entry["batches"] / MEGA for kind in read}
    return ", ".join(f"{kind} {value:.2f} MB" for kind, value in each.items())
