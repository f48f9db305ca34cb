"""``eta-lstm bench scaling``: speedup by number of boards, by the cycle model."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.host.computer import count_processors
from etalstm.host.drawing import check_can_draw
from etalstm.host.durable import write_whole
from etalstm.model.across import Across, remembering
from etalstm.model.boards import Links
from etalstm.model.measured import Shares, measure_all, sending
from etalstm.network.benchmarks import STORAGE, named
from etalstm.network.execution import FLOAT32, PRESET_HELP, WEIGHT_FORMAT_HELP, Execution
from etalstm.network.shape import check_size
from etalstm.network.storage import Storage
from etalstm.research.paper.figures import draw_boards
from etalstm_hw.config import preset as named_preset


def numbers_of_boards(most: int, batch: int) -> list[int]:
    """Give powers of two from 2 to `most` boards, at most as many as there are sequences."""
    return [1 << power for power in range(1, min(most, batch).bit_length())]


def scaling(
    benchmark: Annotated[str, Option(help="Named networks, with commas between, or all")] = "all",
    boards: Annotated[int, Option(help="As many boards at most; powers of two are looked at")] = 64,
    preset: Annotated[str, Option(help=PRESET_HELP)] = "vcu128",
    density: Annotated[float, Option(help="Share of δ that is not zero")] = 1.0,
    local_density: Annotated[float, Option(help="Share of local gradients that is not zero")] = 1.0,
    input_density: Annotated[float, Option(help="Share of x and h that is sent")] = 1.0,
    weight_format: Annotated[str, Option(help=WEIGHT_FORMAT_HELP)] = FLOAT32,
    out: Annotated[Path | None, Option(help="Picture to write, SVG")] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON objects, one a line")] = False,
) -> None:
    """Tell by the cycle model what more boards gain: with the same batch, shared or in a pipeline, and with more."""
    check_size("boards", boards)
    if boards < 2:
        raise ValueError(f"boards must be at least 2, got {boards}")
    if out is not None:
        check_can_draw()
    config = named_preset(preset)
    measure = remembering(
        partial(
            measure_all, processors=count_processors(), config=config,
            execution=Execution(Storage(STORAGE), 1, sending(input_density), weight_format),
            shares=Shares(density, local_density, input_density),
        )
    )  # fmt: skip
    points = []
    for one in named(benchmark):
        for count in numbers_of_boards(boards, one.batch):
            size = one.network, one.batch, one.steps
            shared = Across(count, Links(), config, [size], measure, pipelines=True, each=False).shared(*size)
            points.append({"benchmark": one.name} | point(shared))
            print(json.dumps(points[-1]) if as_json else line(points[-1]), flush=True)
    if out is not None:
        write_whole(out, draw_boards(points))
        print(out)


def point(shared: dict) -> dict:
    """Give the speedups in a result of :meth:`Across.shared`; None for a pipeline, if there is none."""
    pipeline = shared["pipeline"]
    return {
        "boards": shared["boards"],
        "shared": shared["speedup"],
        "pipeline": pipeline and pipeline["speedup"],
        "stages": pipeline and len(pipeline["stages"]),
        "batch_each": shared["speedup_with_batch_each"],
    }


def line(found: dict) -> str:
    """Put a network and a number of boards on a line."""
    pipeline = "-" if found["pipeline"] is None else f"{found['pipeline']:.2f} ({found['stages']} stages)"
    return (
        f"{found['benchmark']:20s}{found['boards']:4d} boards: shared batch {found['shared']:6.2f}, pipeline "
        f"{pipeline:18s} with a batch each {found['batch_each']:6.2f}"
    )
