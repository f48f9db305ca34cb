"""``eta-lstm research profile``: the latency of a layer by its size, which sizes pay, and their figure."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.table import Table
from typer import Argument, Context, Option

from etalstm.cli import options
from etalstm.cli.declared import with_settings
from etalstm.cli.options import refuse
from etalstm.cli.output import print_table, say, with_extra
from etalstm.cli.work import PANELS, Work
from etalstm.errors import PlanError, RunError
from etalstm.host.computer import count_processors, worker_processes
from etalstm.model.measured import measure
from etalstm.network.execution import STORAGE_HELP, Execution
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.storage import DENSE, Storage
from etalstm.research.profile import (
    DIMENSIONS,
    HIDDEN,
    INPUT,
    Profile,
    check_tolerance,
    draw_profiles,
    load,
    model_digest,
    never_pays,
    sizes_between,
)
from etalstm_hw.config import Config
from etalstm_hw.config import preset as named_preset
from etalstm_sim.trials.model.compare import compare
from etalstm_sim.trials.model.configurations import Configuration

HOST = "host"
TOLERANCE, HOST_TOLERANCE = 0.01, 0.05
RUNS = 9
SHOWN = 40  # points of the table


@with_settings(Work, PANELS, "cell batch steps preset", preset="vcu128", batch=20, steps=35)
def latency(
    context: Context,
    dimension: Annotated[str, Option(help="What is swept: hidden (units) or input (inputs)")] = HIDDEN,
    inputs: Annotated[int | None, Option("--input", help="With hidden: inputs [default: as many as units]")] = None,
    hidden: Annotated[int, Option(help="With --dimension input: units")] = 256,
    first: Annotated[int, Option("--from", help="Smallest size")] = 8,
    last: Annotated[int, Option("--to", help="Largest size, which is always a point")] = 256,
    step: Annotated[int, Option("--by", help="From one size to the next")] = 1,
    tolerance: Annotated[
        float | None, Option(help="Shares of latency that count as no difference [default: 0.01; with --host 0.05]")
    ] = None,
    storage: Annotated[str, Option(help=STORAGE_HELP)] = DENSE,
    forward: Annotated[bool, Option("--forward", help="The forward pass alone")] = False,
    check: Annotated[int, Option(help="Compare so many sizes with the Verilog")] = 0,
    host: Annotated[bool, Option("--host", help="Time PyTorch's LSTM on this computer instead")] = False,
    runs: Annotated[int, Option(help="With --host: turns of each size; medians count")] = RUNS,
    out: Annotated[Path | None, Option(help="File of the profile to write, JSON")] = None,
    as_json: options.AsJson = False,
    **of_work: Any,
) -> int:
    """Find the sizes of a layer that pay: no larger one is as fast. The exit code is 1 if the Verilog differs."""
    work = Work(**of_work)
    sizes = sizes_between(first, last, step)
    check_tolerance(0 if tolerance is None else tolerance)
    _refuse(context, dimension, host, forward, check, len(sizes))
    networks = {size: _network(dimension, size, inputs, hidden, work.cell) for size in sizes}
    shared: dict[str, Any] = {"dimension": dimension, "inputs": inputs, "cell": work.cell}
    shared |= {"storage": Storage(storage).policy, "hidden": hidden if dimension == INPUT else None}
    shared |= {"batch": check_size("batch", work.batch), "steps": check_size("steps", work.steps), "forward": forward}
    if host:
        profile = _host_profile(networks, runs, HOST_TOLERANCE if tolerance is None else tolerance, shared)
    else:
        profile = _model_profile(work.preset, networks, TOLERANCE if tolerance is None else tolerance, shared)
    checked = [_checked(profile, networks[size], size) for size in _spread(profile, check)]
    if out is not None:
        profile.save(out)
    _show(profile, checked, as_json)
    return int(any(one["cycles"] != one["verilog"] for one in checked))


def _refuse(context: Context, dimension: str, host: bool, forward: bool, check: int, sizes: int) -> None:
    if dimension not in DIMENSIONS:
        raise ValueError(f"dimension must be one of {', '.join(DIMENSIONS)}, got {dimension!r}")
    if not 0 <= check <= sizes:
        raise ValueError(f"check must be 0 to {sizes}, the sizes of the sweep, got {check}")
    if dimension == INPUT:
        refuse(context, "what --dimension input sweeps", "inputs")
    else:
        refuse(context, "only used with --dimension input", "hidden")
    if host:
        refuse(context, "not used with --host", "preset", "storage", "check", "cell")
    else:
        refuse(context, "only used with --host", "runs")
    if forward:
        refuse(context, "not used with --forward: a whole iteration is checked", "check")


def _network(dimension: str, size: int, inputs: int | None, hidden: int, cell: str) -> NetworkShape:
    sizes = (size, hidden) if dimension == INPUT else (size if inputs is None else inputs, size)
    return NetworkShape(*sizes, cell=cell)


def cycles_of(
    network: NetworkShape, batch: int, steps: int, config: Config, storage: str = DENSE, forward: bool = False
) -> int | None:
    """Give the cycles of an iteration on a machine, or of its forward pass; None if the machine cannot hold it."""
    try:
        return measure(network, batch, steps, config, Execution(Storage(storage)), forward=forward)["cycles"]
    except PlanError:
        return None


def _model_profile(preset: str, networks: Mapping[int, NetworkShape], tolerance: float, shared: dict) -> Profile:
    config = named_preset(preset)
    one = partial(
        cycles_of, batch=shared["batch"], steps=shared["steps"], config=config, storage=shared["storage"],
        forward=shared["forward"],
    )  # fmt: skip
    with worker_processes(min(count_processors(), len(networks))) as pool:
        found = dict(zip(networks, pool.map(one, networks.values(), chunksize=4), strict=True))
    if all(cycles is None for cycles in found.values()):
        raise PlanError(f"preset {preset} holds none of the sizes from {min(networks)} to {max(networks)}")
    return Profile(
        machine=preset, preset_digest=config.digest, model_digest=model_digest(), unit="cycles", tolerance=tolerance,
        latencies={**found}, **shared,
    )  # fmt: skip


def _host_profile(networks: Mapping[int, NetworkShape], runs: int, tolerance: float, shared: dict) -> Profile:
    timing = with_extra("etalstm.nn.bench")
    seconds = timing.seconds_of(list(networks.values()), shared["batch"], shared["steps"], runs, shared["forward"])
    return Profile(
        machine=HOST, preset_digest=0, model_digest=f"torch {timing.torch.__version__}", unit="seconds",
        tolerance=tolerance, latencies=dict(zip(networks, seconds, strict=True)), **shared,
    )  # fmt: skip


def _spread(profile: Profile, count: int) -> list[int]:
    """Give `count` of the sizes that fit the machine, evenly spread, the first and the last among them."""
    fitting = [size for size, cycles in profile.latencies.items() if cycles is not None]
    return [fitting[n] for n in sorted(set(np.linspace(0, len(fitting) - 1, count).round().astype(int).tolist()))]


def _checked(profile: Profile, network: NetworkShape, size: int) -> dict:
    """Run an iteration of a size on the Verilog."""
    config, batch = named_preset(profile.machine), (profile.batch, profile.steps)
    storage = Storage(profile.storage)
    groups = measure(network, *batch, config, Execution(storage))["groups"]
    sizes = network.input_size, network.hidden_size, network.layers, *batch
    execution = Execution(storage, slices=groups)
    found = compare(Configuration(f"{size}", profile.machine, *sizes, execution, cell=profile.cell), log=say)
    return {"size": size, "cycles": profile.latencies[size], "verilog": found["cycles"]}


def _show(profile: Profile, checked: list[dict], as_json: bool) -> None:
    found = {"points": profile.points, "never_pays": profile.never_pays, "checked": checked}
    found["never_pays_strictly"] = never_pays(profile.latencies)
    if as_json:
        print(json.dumps(profile.model_dump() | found))
        return
    print_table(_table(profile))
    fitting = sum(latency is not None for latency in profile.latencies.values())
    print(
        f"{len(profile.points)} of {fitting} sizes are hysteresis points at tolerance {profile.tolerance:g}: "
        f"{profile.never_pays:.1%} never pay; at tolerance 0: {found['never_pays_strictly']:.1%}"
    )
    for one in checked:
        error = abs(one["cycles"] / one["verilog"] - 1)
        word = f"DIFFERENT by {error:.2%}" if error else "equal"
        print(f"size {one['size']}: model {one['cycles']:,} cycles, Verilog {one['verilog']:,}: {word}")


def _table(profile: Profile) -> Table:
    """Make a table of points: their latency, and by how much that of the next smaller and next larger size differs."""
    named = profile.machine, profile.cell, profile.dimension, f"B {profile.batch}", f"T {profile.steps}"
    title = f"{', '.join(named)}: hysteresis points"
    shown = profile.points[-SHOWN:]
    table = Table(title=title + (f", the last {SHOWN}" if len(shown) < len(profile.points) else ""))
    for column in ("size", profile.unit, "next smaller", "next larger"):
        table.add_column(column, justify="right")
    known = {size: latency for size, latency in profile.latencies.items() if latency is not None}
    sizes = list(known)
    for point in shown:
        at, own = sizes.index(point), known[point]
        near = [sizes[n] if 0 <= n < len(sizes) else None for n in (at - 1, at + 1)]
        shares = ["" if size is None else f"{known[size] / own - 1:+.1%}" for size in near]
        table.add_row(str(point), f"{own:,}" if profile.unit == "cycles" else f"{own:.6f}", *shares)
    return table


def draw(
    profiles: Annotated[list[Path], Argument(help="Files of eta-lstm research profile latency")],
    out: Annotated[Path, Option(help="Picture to write: .svg, .png or .pdf")] = Path("profiles.svg"),
) -> None:
    """Draw latency by size, and the sizes that pay: a panel for each profile."""
    found = [load(path) for path in profiles]
    for path, profile in zip(profiles, found, strict=True):
        if all(latency is None for latency in profile.latencies.values()):
            raise RunError(f"{path}: the machine holds none of the sizes, so there is nothing to draw")
    draw_profiles(found, out)
    print(out)
