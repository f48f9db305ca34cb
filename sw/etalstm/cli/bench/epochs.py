"""``eta-lstm bench epochs``: an epoch by the cycle model, with and without buckets, on one board and on several."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Option

from etalstm.data import DataSet
from etalstm.data.buckets import NONE, read_buckets
from etalstm.data.dataset import padding
from etalstm.data.lengths import READERS, sources, static_buckets
from etalstm.host.computer import count_processors
from etalstm.model.across import Across, remembering
from etalstm.model.boards import Links
from etalstm.model.measured import measure_all
from etalstm.network.execution import PRESET_HELP
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.slices import AUTO
from etalstm_hw.config import Config
from etalstm_hw.config import preset as named_preset

ANCHORS = 4
"""How many numbers of steps are modelled. Between them cycles are interpolated, as each step adds equally many."""

NUMBERS = ("milliseconds", "cycles", "network_bytes")
ALONE, SHARED, PIPELINE = "one board", "shared batch", "pipeline"


def anchors(most: Sequence[int]) -> list[int]:
    """Choose :data:`ANCHORS` numbers of steps from the least to the most, evenly on a logarithmic scale."""
    found = np.geomspace(min(most), max(most), ANCHORS).round().astype(int)
    return sorted(set(found.tolist()))


def iterations(
    config: Config, network: NetworkShape, batch: int, steps: Sequence[int], boards: Sequence[int]
) -> dict[tuple[str, int], np.ndarray]:
    """Model an iteration of some numbers of steps in all arrangements.

    Gives a dict from (arrangement, boards) to an array (len(steps), 3) of :data:`NUMBERS`. A pipeline is left out if
    some of the numbers of steps have none.
    """
    sizes, found = [(network, batch, count) for count in steps], {}
    measure = remembering(partial(measure_all, processors=count_processors(), config=config))
    for count in boards:
        across = Across(count, Links(), config, sizes, measure, pipelines=True, each=False)
        shared = [across.shared(*size) for size in sizes]
        alone = [(each["alone"], across.alone(*size)["cycles"], 0) for each, size in zip(shared, sizes, strict=True)]
        found[ALONE, 1] = np.array(alone, float)
        found[SHARED, count] = np.array([[each[name] for name in NUMBERS] for each in shared], float)
        pipelines = [each["pipeline"] for each in shared]
        if None not in pipelines:
            found[PIPELINE, count] = np.array([[each[name] for name in NUMBERS] for each in pipelines], float)
    return found


def epoch(data: DataSet, buckets: str, batch: int) -> tuple[Counter, float]:
    """Give the batches of an epoch of training by their steps, and the share of padding."""
    found = data.in_buckets(read_buckets(buckets), batch)
    batches = found.epoch("train", batch, found.steps, np.random.default_rng(0))
    return Counter(len(each.x) for each in batches), padding(batches)


def sum_epoch(counts: Counter, steps: list[int], numbers: np.ndarray) -> dict:
    """Add up :data:`NUMBERS` over an epoch's batches, interpolated from `numbers` (len(steps), 3) at `steps`."""
    lengths, times = map(np.array, zip(*counts.items(), strict=True))
    milliseconds, cycles, network_bytes = (float(times @ np.interp(lengths, steps, column)) for column in numbers.T)
    return {"cycles": round(cycles), "network_bytes": round(network_bytes), "seconds": milliseconds / 1e3}


def measured(
    data: DataSet, cases: Sequence[str], config: Config, network: NetworkShape, batch: int, boards: Sequence[int]
) -> Iterator[dict]:
    """Give an entry for each arrangement and each way of making buckets; the first is one board without buckets."""
    epochs = {case: epoch(data, case, batch) for case in cases}
    steps = anchors([count for counts, _ in epochs.values() for count in counts])
    found, first = iterations(config, network, batch, steps, boards), None
    for (arrangement, count), numbers in found.items():
        for case, (counts, padded) in epochs.items():
            entry: dict[str, Any] = {"data": data.name, "arrangement": arrangement, "boards": count, "buckets": case}
            entry |= {"padding": padded} | sum_epoch(counts, steps, numbers)
            first = first or entry["seconds"]
            yield entry | {"speedup": first / entry["seconds"]}


def epochs(
    data: Annotated[
        Path | None, Option(help=f"Directory with folders of {', '.join(READERS)}, or some [default: synthetic]")
    ] = None,
    batch: Annotated[int, Option(help="Sequences of an iteration, of all boards together")] = 128,
    static: Annotated[
        str | None, Option(help="Bounds of given buckets, below the longest [default: quarters of it]")
    ] = None,
    preset: Annotated[str, Option(help=PRESET_HELP)] = "vcu128",
    hidden: Annotated[int, Option(help="Units of a layer, and its inputs")] = 512,
    layers: Annotated[int, Option(help="LSTM layers")] = 8,
    boards: Annotated[str, Option(help="Numbers of boards, with commas between")] = "2,4",
    as_json: Annotated[bool, Option("--json", help="Print a JSON object for each case")] = False,
) -> None:
    """Tell by the cycle model how long an epoch takes: padded, in buckets, and on boards that share batch or layers.

    Nothing is zero. Hosts and network are those of eta-lstm model --boards.
    """
    network = NetworkShape(hidden, hidden, layers)
    check_size("batch", batch)
    several = [read_boards(text) for text in boards.split(",")]
    config = named_preset(preset)
    for found in sources(data):
        cases = NONE, static_buckets(static, found.steps), AUTO
        for entry in measured(found, cases, config, network, batch, several):
            print(json.dumps(entry) if as_json else line(entry), flush=True)


def read_boards(text: str) -> int:
    """Read a number of boards; ``ValueError`` if it is not an integer above 1."""
    if not text.strip().isdecimal() or int(text) < 2:
        raise ValueError(f"boards must be numbers above 1 with commas between, got {text!r}")
    return int(text)


def line(entry: dict) -> str:
    """Put a case on a line."""
    return (
        f"{entry['data']:10s}{entry['boards']:2d} {entry['arrangement']:14s}{entry['buckets']:16s}"
        f"padding {entry['padding']:6.2%} {entry['cycles']:18,} cycles a board {entry['network_bytes'] / 1e9:9.2f} GB "
        f"between hosts {entry['seconds']:9.2f} s, {entry['speedup']:.2f} times as fast"
    )
