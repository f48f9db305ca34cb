"""``eta-lstm model``: how many cycles an iteration takes on a machine, without a machine."""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from etalstm.architecture import SWING, Architecture
from etalstm.architecture import architecture as named_architecture
from etalstm.benchmarks import STORAGE, named
from etalstm.commands.bench import operations
from etalstm.commands.devices import ARCHITECTURE_HELP
from etalstm.commands.model_boards import across, batch_of_board, line_of
from etalstm.commands.model_check import check as check_model
from etalstm.commands.model_check import chosen
from etalstm.commands.model_weights import measure_run
from etalstm.commands.options import (
    SHARED_TOKENS_HELP,
    SIZES,
    SLICES_HELP,
    WEIGHT_FORMAT_HELP,
    refuse,
    slices_or_auto,
    tokens_or_off,
)
from etalstm.commands.planner import share_of
from etalstm.delta_inputs import DeltaInputs
from etalstm.hw.config import Config
from etalstm.hw.config import preset as named_preset
from etalstm.model.boards import PCIE_BYTES, Links
from etalstm.model.iteration import count_iteration
from etalstm.model.operands import Densities
from etalstm.network import NetworkShape, check_size
from etalstm.plan.fit import plan_best_slices, plan_whole
from etalstm.plan.groups import group_counts
from etalstm.plan.operands import LOCAL_GRADIENTS
from etalstm.plan.plan import Plan
from etalstm.processors import count_processors
from etalstm.shared_tokens import check_shared_tokens
from etalstm.slices import AUTO, check_slices
from etalstm.storage import Storage
from etalstm.weight_format import BF16, FLOAT32, check_weight_format

PRESET = "vcu128"
DENSITIES = ("density", "local_density", "input_density")
OF_BOARDS = ("boards", "pcie", "network_gbit")
OF_NETWORK = ("storage", "slices", "weight_format", "shared_tokens", *DENSITIES, "refresh", "architecture")


def model(
    context: Context,
    preset: Annotated[
        str | None, Option(help="Configuration of the accelerator [default: vcu128; with --check: all but that]")
    ] = None,
    benchmark: Annotated[str | None, Option(help="Named network, or all; instead of the sizes")] = None,
    inputs: Annotated[int | None, Option("--input", help="Inputs; default: as many as units")] = None,
    hidden: Annotated[int, Option(help="Units of a layer")] = 256,
    layers: Annotated[int, Option(help="LSTM layers")] = 1,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 8,
    storage: Annotated[str, Option(help="What cells keep: dense, ms1, ms1-bf16")] = STORAGE,
    slices: Annotated[str, Option(help=f"{SLICES_HELP}; auto: as many as the machine uses best")] = AUTO,
    weight_format: Annotated[str, Option(help=WEIGHT_FORMAT_HELP)] = FLOAT32,
    shared_tokens: Annotated[str, Option(help=SHARED_TOKENS_HELP)] = "off",
    density: Annotated[float, Option(help="Share of δ that is not zero")] = 1.0,
    local_density: Annotated[float, Option(help="Share of local gradients that is not zero")] = 1.0,
    input_density: Annotated[
        float, Option(help="Share of x and h that is sent at steps other than refresh steps; 1: everything is")
    ] = 1.0,
    refresh: Annotated[int, Option(help="With --input-density: everything is sent every so many steps; 0: once")] = 0,
    weights: Annotated[
        Path | None, Option(help="Folder of a training run: its network, and the shares that are zero in an iteration")
    ] = None,
    data: Annotated[Path | None, Option(help="With --weights: directory of the data set's files")] = None,
    architecture: Annotated[str, Option(help=ARCHITECTURE_HELP)] = SWING.name,
    boards: Annotated[int, Option(help="Boards that share the batch, each in a host of its own")] = 1,
    pcie: Annotated[float, Option(help="With --boards: GB/s each way between a board and its host")] = PCIE_BYTES / 1e9,
    network_gbit: Annotated[float, Option("--network", help="With --boards: Gbit/s each way of a host")] = 100.0,
    forward: Annotated[bool, Option("--forward", help="The forward pass alone")] = False,
    check: Annotated[bool, Option("--check", help="Compare the model with the Verilog")] = False,
    as_json: Annotated[bool, Option("--json", help="Print JSON objects, one a line")] = False,
) -> None:
    """Tell the cycles of a training iteration from a timing model of the machine."""
    if check:
        refuse(
            context, "not used with --check", *SIZES, *OF_NETWORK, "benchmark", "weights", "data", "forward", *OF_BOARDS
        )
        check_model(chosen(preset), as_json=as_json)
        return
    config = named_preset(preset or PRESET)
    if boards == 1:
        refuse(context, "only used with --boards", "pcie", "network_gbit")
    elif forward:
        refuse(context, "not used with --forward, which has no gradients", "boards")
    links = Links(pcie=1e9 * pcie, network=1e9 / 8 * network_gbit)
    for name, size in (("batch", batch), ("steps", steps), ("boards", boards)):
        check_size(name, size)
    if weights is not None:
        of_run = (*SIZES, "benchmark", *DENSITIES, "refresh", "weight_format")
        refuse(context, "not used with --weights, whose run has its own", *of_run)
    else:
        refuse(context, "only used with --weights", "data")
        if input_density == 1:
            refuse(context, "only used with an --input-density below 1", "refresh")
        elif refresh == 1:
            raise ValueError(f"with refresh 1 everything is sent: input_density must be 1, got {input_density}")
    if benchmark is not None:
        refuse(context, "not used with --benchmark, which has sizes of its own", *SIZES)
    if benchmark is None:
        network = NetworkShape(hidden if inputs is None else inputs, hidden, layers)
        shapes = [(f"{network.input_size}-{hidden}-{batch}", network, batch, steps, None)]
    else:
        shapes = [(one.name, one.network, one.batch, one.steps, one.v100_utilization) for one in named(benchmark)]
    options = {"storage": storage, "delta": density, "local": local_density, "architecture": architecture}
    options["slices"] = slices_or_auto(slices)
    options |= {"inputs": input_density, "refresh": refresh, "weight_format": check_weight_format(weight_format)}
    options["shared_tokens"] = tokens_or_off(shared_tokens)
    if weights is not None:
        run = measure_run(weights, data)
        shapes = [(run.name, run.shape.network, run.shape.batch, run.shape.steps, None)]
        options |= {"delta": run.delta, "local": run.local, "masked": run.shape.masked}
        options |= {"inputs": run.inputs, "refresh": run.shape.inputs.refresh}
        options["weight_format"] = run.shape.weight_format
    sizes = [sizes for _, *sizes, _ in shapes]
    measured = measure_all(sizes, count_processors(), config=config, forward=forward, **options)
    if boards > 1:
        of_parts = [(network, batch_of_board(batch, boards), steps) for network, batch, steps in sizes]
        parts = measure_all(of_parts, count_processors(), config=config, forward=forward, **options)
    else:
        parts = repeat(None, len(sizes))
    for (name, *size, of_v100), found, part in zip(shapes, measured, parts, strict=True):
        found = {"benchmark": name} | found
        found |= {} if of_v100 is None else {"v100_utilization": of_v100}
        found |= {} if part is None else {"shared": across(found, part, *size, boards, links)}
        if weights is not None:
            found |= {"density": run.delta, "local_density": run.local, "input_density": run.inputs}
        print(json.dumps(found) if as_json else _line(found), flush=True)
        if part is not None and not as_json:
            print(line_of(found["shared"]), flush=True)


def measure_all(sizes: Sequence[tuple[NetworkShape, int, int]], processors: int, **options) -> Iterator[dict]:
    """Measure several networks on so many processors.

    Parameters
    ----------
    sizes : sequence of (network, batch, steps)
    processors : int
    **options
        Of :func:`measure`, which says what is found and raised.

    Yields
    ------
    dict
        What is found, in the order of `sizes`.
    """
    one, columns = partial(measure, **options), zip(*sizes, strict=True)
    workers = min(len(sizes), processors)
    if workers == 1:
        yield from map(one, *columns)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(one, *columns)


def plan_named(
    config: Config,
    network: NetworkShape,
    batch: int,
    steps: int,
    storage: str,
    architecture: Architecture,
    slices: int | str,
    masked: bool = False,
    inputs: DeltaInputs = DeltaInputs(),  # noqa: B008  frozen
    local: float = 1.0,
    weight_format: str = FLOAT32,
    shared_tokens: int | None = None,
) -> Plan:
    """Plan a network as the options of a command name it, with room for a share `local` of the local gradients.

    Raises
    ------
    ValueError
        If the architecture cannot keep intermediates like this, there are more slices than sequences, or tokens cannot
        be shared.
    PlanError
        If the network does not fit the memory.
    """
    kept = Storage(storage)
    architecture.check_storage(kept)

    def share(log: int) -> float:
        return share_of(local, storage == "ms1-bf16", log) if log == LOCAL_GRADIENTS else 1.0

    def plan_with(slices: int, groups: Sequence[int]) -> Plan:
        make = partial(
            Plan, config, network, batch, steps, masked=masked, storage=kept, skips=architecture.skips, slices=slices,
            inputs=inputs, share=share, weight_format=weight_format,
            shared_tokens=check_shared_tokens(shared_tokens, inputs, architecture),
        )  # fmt: skip
        return plan_whole(1 << config.address_bits, make, groups)

    narrow = weight_format == BF16
    if slices == AUTO:
        return plan_best_slices(config, network, batch, plan_with, narrow)
    return plan_with(check_slices(slices, batch), group_counts(config, network, batch, slices, narrow))


def operands_of(
    config: Config, plan: Plan, architecture: Architecture, delta: float, local: float, inputs: float = 1.0
) -> Densities:
    """Say what is not zero; on an architecture that skips nothing everything is dense.

    Raises
    ------
    ValueError
        If a share is outside [0, 1].
    """
    for name, share in (("density", delta), ("local_density", local), ("input_density", inputs)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} must be 0 to 1, got {share}")
    if not architecture.skips:
        return Densities(config, plan)
    return Densities(config, plan, delta=delta, local=local, inputs=inputs)


def measure(
    network: NetworkShape,
    batch: int,
    steps: int,
    config: Config,
    *,
    storage: str = STORAGE,
    delta: float = 1.0,
    local: float = 1.0,
    inputs: float = 1.0,
    refresh: int = 0,
    architecture: str = SWING.name,
    slices: int | str = AUTO,
    masked: bool = False,
    forward: bool = False,
    weight_format: str = FLOAT32,
    shared_tokens: int | None = None,
) -> dict:
    """Plan a network and model an iteration of it, or its forward pass.

    Returns
    -------
    dict
        ``groups`` of channels, ``cycles``, ``utilization`` (MACs that are made, of the network's, over PEs times
        cycles), ``dense_equivalent`` (the same of all of the network's MACs, those that are skipped included),
        ``milliseconds`` at the configuration's clock, ``bytes`` by kind, read and written, ``operations`` of all
        lanes: ``mac``, ``elementwise`` and ``activation``, ``footprint``: bytes of memory by kind, and ``passes``:
        cycles of each program. On an architecture that skips nothing everything is dense, whatever the densities.

    Raises
    ------
    ValueError
        If the architecture cannot keep intermediates like this.
    PlanError
        If the network does not fit the memory.
    """
    machine = named_architecture(architecture)
    delta, inputs = (delta, inputs) if machine.skips else (1.0, 1.0)
    sent = DeltaInputs() if inputs == 1 else DeltaInputs(0.0, refresh)
    of_plan = slices, masked, sent, local, weight_format, shared_tokens
    plan = plan_named(config, network, batch, steps, storage, machine, *of_plan)
    operands = operands_of(config, plan, machine, delta, local, inputs)
    passes = count_iteration(config, plan, operands, machine, only="forward" if forward else "")
    cycles = sum(counters["cycles"] for counters in passes.values())
    of_pass = operations(network, batch, steps) // 6
    made, macs = (1 - (1 - inputs) * (1 - _refreshed(sent, steps))) * of_pass, of_pass
    if shared_tokens is not None:
        made -= network.rows * (batch * steps * (network.input_size - 1) - shared_tokens * network.input_size)
    if not forward:
        made, macs = made + 2 * delta * of_pass, 3 * of_pass
    moved = {
        f"{way}_{kind}": sum(counters[f"{way}_bytes"][kind] for counters in passes.values())
        for way in ("read", "write")
        for kind in next(iter(passes.values()))["read_bytes"]
    }
    return {
        "groups": plan.groups,
        "cycles": cycles,
        "utilization": made / (config.pes * cycles),
        "dense_equivalent": macs / (config.pes * cycles),
        "milliseconds": cycles / config.clock_mhz / 1000,
        "bytes": moved | {"program": sum(counters["program_bytes"] for counters in passes.values())},
        "operations": _operations(config, passes.values()),
        "footprint": plan.footprint(),
        "passes": {name: counters["cycles"] for name, counters in passes.items()},
    }


def _operations(config: Config, passes: Iterable[dict]) -> dict[str, int]:
    """Count operations by kind; lanes without an element count like the others."""
    found = {"mac": 0, "elementwise": 0, "activation": 0}
    for counters in passes:
        for kind in ("mac", "elementwise"):
            found[kind] += config.lanes * counters["channel_cycles"][kind]
        found["activation"] += counters["activation"]
    return found


def _refreshed(inputs: DeltaInputs, steps: int) -> float:
    """Give the share of steps at which everything is sent."""
    return inputs.layer(0).refreshed(steps).mean()


def _line(found: dict) -> str:
    gigabytes = sum(found["bytes"].values()) / 1e9
    of_v100 = f"  V100 {found['v100_utilization']:.3f}" if "v100_utilization" in found else ""
    return (
        f"{found['benchmark']:20s} {found['groups']} groups {found['cycles']:15,} cycles "
        f"{found['milliseconds']:10.1f} ms utilization {found['utilization']:.3f} {gigabytes:8.1f} GB{of_v100}"
    )
