"""Plans a network and runs its programs through the cycle model, for ``eta-lstm model`` and ``research paper``."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from etalstm.cli.planner import share_of
from etalstm.host.processors import worker_processes
from etalstm.model.cells import EVERY, early_cells
from etalstm.model.iteration import count_iteration
from etalstm.model.operands import Densities
from etalstm.network.architecture import SWING, Architecture
from etalstm.network.architecture import architecture as named_architecture
from etalstm.network.benchmarks import STORAGE
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.shape import NetworkShape, operations
from etalstm.network.shared_tokens import check_shared_tokens
from etalstm.network.slices import AUTO, check_slices
from etalstm.network.storage import Storage
from etalstm.network.weight_format import BF16, FLOAT32
from etalstm.plan.choose.fit import plan_best_slices, plan_whole
from etalstm.plan.memory.groups import group_counts
from etalstm.plan.memory.operands import LOCAL_GRADIENTS
from etalstm.plan.plan import Plan
from etalstm_hw.config import Config


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
    with worker_processes(workers) as pool:
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
    layers_apart: bool = False,
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
            shared_tokens=check_shared_tokens(shared_tokens, inputs, architecture), layers_apart=layers_apart,
        )  # fmt: skip
        return plan_whole(1 << config.address_bits, make, groups)

    narrow = weight_format == BF16
    if slices == AUTO:
        return plan_best_slices(config, network, batch, plan_with, narrow)
    return plan_with(check_slices(slices, batch), group_counts(config, network, batch, slices, narrow))


def operands_of(
    config: Config, plan: Plan, architecture: Architecture, delta: float, local: float, inputs: float = 1.0
) -> Densities:
    """Say what is not zero. An architecture that skips no zeros has no delta inputs; its streams drop zeros like any.

    Raises
    ------
    ValueError
        If a share is outside [0, 1].
    """
    for name, share in (("density", delta), ("local_density", local), ("input_density", inputs)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} must be 0 to 1, got {share}")
    return Densities(config, plan, delta=delta, local=local, inputs=inputs if architecture.skips else 1.0)


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
    kept_cells: Sequence[float] = EVERY,
    architecture: str = SWING.name,
    slices: int | str = AUTO,
    masked: bool = False,
    forward: bool = False,
    weight_format: str = FLOAT32,
    shared_tokens: int | None = None,
    layers_apart: bool = False,
) -> dict:
    """Plan a network and model an iteration of it, or its forward pass.

    Parameters
    ----------
    delta, local : float
        Nonzero shares of δ and of the local gradients, in the cells that are kept.
    inputs : float
        Share of x and h that is sent, except every `refresh` steps. Only an architecture that skips zeros has this.
    kept_cells : sequence of float
        Share of the cells that are kept, see :func:`etalstm.model.cells.early_cells`.
    layers_apart : bool
        A program for the backward pass of each layer.

    Returns
    -------
    dict
        ``groups`` of channels, ``cycles``, ``utilization`` (MACs that are made, of the network's, over PEs times
        cycles), ``dense_equivalent`` (the same of all of the network's MACs, those that are skipped included),
        ``milliseconds`` at the configuration's clock, ``bytes`` by kind, read and written, ``operations`` of all
        lanes: ``mac``, ``elementwise`` and ``activation``, ``footprint``: bytes of memory by kind, and ``passes``:
        cycles of each program. An architecture that skips no zeros makes the MACs of δ's zeros, too; their bytes are
        dropped from streams all the same.

    Raises
    ------
    ValueError
        If the architecture cannot keep intermediates like this, or a share is out of its range.
    PlanError
        If the network does not fit the memory.
    """
    machine = named_architecture(architecture)
    skipped = early_cells(network.layers, steps, kept_cells)
    inputs = inputs if machine.skips else 1.0
    sent = DeltaInputs() if inputs == 1 else DeltaInputs(0.0, refresh)
    of_plan = slices, masked, sent, local, weight_format, shared_tokens, layers_apart
    plan = plan_named(config, network, batch, steps, storage, machine, *of_plan)
    operands = operands_of(config, plan, machine, delta, local, inputs)
    passes = count_iteration(config, plan, operands, machine, skipped=skipped, only="forward" if forward else "")
    cycles = sum(counters["cycles"] for counters in passes.values())
    of_pass = operations(network, batch, steps) // 6
    made, macs = (1 - (1 - inputs) * (1 - _refreshed(sent, steps))) * of_pass, of_pass
    if shared_tokens is not None:
        made -= network.rows * (batch * steps * (network.input_size - 1) - shared_tokens * network.input_size)
    if not forward:
        sent_deltas = delta if machine.skips else 1.0
        made, macs = made + 2 * sent_deltas * _backward_macs(network, batch, skipped), 3 * of_pass
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


def _backward_macs(network: NetworkShape, batch: int, skipped: np.ndarray) -> int:
    """Count the MACs of one of the two products with δ, of the cells that are kept."""
    of_cell = [network.of_layers(range(layer, layer + 1)).weights() * batch for layer in range(network.layers)]
    return int(np.dot(of_cell, np.count_nonzero(~skipped, axis=1)))


def _refreshed(inputs: DeltaInputs, steps: int) -> float:
    """Give the share of steps at which everything is sent."""
    return inputs.layer(0).refreshed(steps).mean()
