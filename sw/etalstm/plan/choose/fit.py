"""How a network is planned: with the fastest groups of channels that fit, within a memory or a memory budget."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any

from etalstm.errors import PlanError
from etalstm.network.cells.cell import Cell
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.slices import AUTO, Parts, check_slices, part_counts
from etalstm.plan.memory.allocation import batch_of, machine_of_group
from etalstm.plan.memory.operands import LOCAL_GRADIENTS
from etalstm.plan.memory.stored import REGIONS, divide
from etalstm.plan.memory.tiling import Partition, ceil_div, stay, weight_vectors
from etalstm.plan.plan import Plan
from etalstm_hw.config import Config
from etalstm_hw.contract import PAGE_BYTES, STREAM_BLOCK


def group_costs(
    config: Config, network: NetworkShape, batch: int, slices: int | str, narrow: bool = False
) -> dict[int, float]:
    """Give the numbers of groups that a batch can be arranged for, and what each costs: see :func:`step_cycles`.

    A group works on equal parts of the batch, each a node of the tree of slices. With ``auto`` slices each group has
    one slice. The fastest number comes first; of equally fast ones the smallest: every group holds weights of its own.
    """
    if isinstance(slices, str):  # auto
        divisions = [Parts(batch, count, count) for count in config.group_counts if count <= batch]
    else:
        divisions = [Parts(batch, slices, count) for count in part_counts(slices) if count in config.group_counts]
    costs = {parts.count: step_cycles(config, network, parts, narrow=narrow) for parts in divisions}
    return dict(sorted(costs.items(), key=lambda cost: cost[1]))


def step_cycles(
    config: Config, network: NetworkShape, parts: Parts, cell: Cell | None = None, *, narrow: bool = False
) -> float:
    """Estimate the cycles that the products of a time step take, if each group works on a part of the batch.

    Forward pass, backward pass and weights' gradient each use every vector of a channel's weights once for each
    sequence; a MAC takes a cycle. With integers a cycle does as many vectors as a tile of sums has, for a sequence of
    each stream. In forward and backward pass the memory port brings the next vector meanwhile, for
    each batch tile anew, unless the weights of a layer stay in the lanes. Nothing is taken to be zero. With `narrow` a
    vector of weights holds two tiles. The cell is the network's, unless another one is given.

    Returns infinity if not even one sequence fits the lanes' memories.
    """
    machine, cell = machine_of_group(config, parts.count), cell or network.declared
    try:
        tiles = batch_of(machine, cell, network.hidden_size, parts.places, parts.slices_of_part).count
    except PlanError:
        return math.inf
    port_cycles = tiles * config.vector_beats * config.channels_per_port
    units = Partition(network.hidden_size, machine.channels, machine.lanes)
    turns, cycles = machine.of_stream(parts.places), 0
    for layer, product in itertools.product(range(network.layers), cell.products):
        gates, columns = len(product.gates), [units] * len(product.operands)
        if "x" in product.operands:
            columns[0] = Partition(network.inputs_of(layer), machine.channels, machine.lanes)
        forward = gates * units.tiles, sum(partition.size for partition in columns)
        backward = sum(partition.tiles for partition in columns), gates * units.size
        for of_scalar, scalars in (forward, backward):
            tiles_of_sums = ceil_div(of_scalar, machine.tile_sums)
            vectors = weight_vectors(tiles_of_sums * machine.row_vectors, narrow)
            products = tiles_of_sums * turns
            streams = not stay(machine, vectors, scalars)
            cycles += scalars * (max(products, vectors * port_cycles) if streams else products)
        cycles += ceil_div(backward[0], machine.tile_sums) * backward[1] * turns
    return cycles


def layer_cycles(config: Config, network: NetworkShape, sequences: int) -> list[float]:
    """Estimate the cycles that the products of each layer take in a time step of so many sequences."""
    layers = [network.of_layers(range(layer, layer + 1)) for layer in range(network.layers)]
    return [step_cycles(config, layer, Parts(sequences, 1, 1)) for layer in layers]


def plan_network(
    config: Config, network: NetworkShape, batch: int, steps: int, execution: Execution, *,
    memory_bytes: int | None = None, memory_budget: int | None = None, groups: Sequence[int] | None = None,
    choose_slices: bool = False, **options: Any,
) -> Plan:  # fmt: skip
    """Plan a network with the fastest groups of channels that fit.

    Parameters
    ----------
    memory_bytes : int, optional          memory of the device. Default: any.
    memory_budget : int, optional
        Bytes of it that the network may take; further intermediates go to the host and back. Default: all.
    groups : sequence of int, optional
        Numbers of groups, the first that fits is taken. Default: all that are possible, the fastest first.
    choose_slices : bool
        As many slices as the machine uses best, instead of the execution's. `groups` are not given then.
    options                               further ones of :class:`Plan`

    Raises ``ValueError`` if there are more slices than sequences, or the groups cannot have equal parts, ``PlanError``
    if the network does not fit the memory or the budget.
    """

    def plan(slices: int, groups: Sequence[int]) -> Plan:
        make = partial(Plan, config, network, batch, steps, replace(execution, slices=slices), **options)
        if memory_budget is None:
            return plan_whole(memory_bytes, make, groups)
        return plan_within(memory_budget, make, groups)

    if choose_slices:
        return plan_best_slices(config, network, batch, plan, execution.narrow)
    slices = check_slices(execution.slices, batch)
    possible = list(group_costs(config, network, batch, slices, execution.narrow))
    for count in groups or ():
        if count not in possible:
            counts = ", ".join(map(str, sorted(possible)))
            raise ValueError(f"groups must be one of {counts} with {slices} slices on this machine, got {count}")
    return plan(slices, groups or possible)


def plan_at_density(
    config: Config, network: NetworkShape, batch: int, steps: int, execution: Execution, density: float, **options: Any
) -> Plan:
    """Do what :func:`plan_network` does, with logs for compressed streams that keep a share of their elements."""
    share = partial(share_of, density, execution.storage.layer(0).bf16)
    return plan_network(config, network, batch, steps, execution, density=density, share=share, **options)


def alternatives(
    config: Config, network: NetworkShape, batch: int, execution: Execution, *, choose_slices: bool = False
) -> dict[int, float]:
    """Give what :func:`group_costs` gives of the numbers of groups that fit the lanes' memories."""
    slices = AUTO if choose_slices else execution.slices
    costs = group_costs(config, network, batch, slices, execution.narrow)
    return {count: cycles for count, cycles in costs.items() if isfinite(cycles)}


def runner_up(groups: int, step_cycles: dict[int, float]) -> int | None:
    """Give the fastest number of groups besides the chosen one, if there is any."""
    return next((count for count in step_cycles if count != groups), None)


def share_of(density: float, bf16: bool, log: int) -> float:
    """Give the room that a log's streams need at a density, as a share of what they need if they keep everything."""
    full = 1 / 2 if bf16 and log == LOCAL_GRADIENTS else 1
    return (1 / STREAM_BLOCK + density * full) / (1 / STREAM_BLOCK + full)


def plan_whole(memory_bytes: int | None, make: Callable[..., Plan], groups: Sequence[int] = (1,)) -> Plan:
    """Plan for a memory, with the first number of groups that fits.

    For each number of groups, δ of all layers is stored if that fits, else of one layer at a time. Only then the next
    number is tried. Only :meth:`etalstm.device.api.Session.contributions` needs δ of all layers. `make` makes the plan,
    with `groups` and `every_delta`, and for `memory_bytes` (None: any).

    Raises ``PlanError`` if the network does not fit; the message says what is needed.
    """
    one_delta = partial(make, every_delta=False)
    for count in groups:
        for made in (make, one_delta):
            plan = _first_that_fits(memory_bytes, made, [count])
            if plan:
                return plan
    return one_delta(memory_bytes=memory_bytes)


def plan_within(budget: int, make: Callable[..., Plan], groups: Sequence[int] = (1,)) -> Plan:
    """Plan with as few segments as a budget allows.

    The channels work in groups only where one segment is enough: each group has weights of its own, which leave less
    room for intermediates. `make` makes the plan of some `groups` (default: one) and `segments` (default: one of all
    cells); `budget` is in bytes of the device's memory.

    Raises ``PlanError`` if the budget is too small however often the cells are divided; the message says what is
    needed.
    """
    plan = _first_that_fits(budget, make, groups)
    if plan:
        return plan
    tried = [make()]
    estimates = _estimates(tried[0])
    likely = [count for count, size in estimates.items() if size <= budget]
    # Estimates leave out that every segment has programs of its own: a number of segments that seems to fit may not.
    for count in [*likely, *(count for count in estimates if count not in likely)]:
        tried.append(make(segments=divide(tried[0].map.stored.needs(), tried[0].map.steps, count)))
        if _fits(tried[-1], budget):
            return tried[-1]
    needed = min(plan.memory_bytes for plan in tried)
    raise PlanError(f"a memory budget of {budget:,} bytes is too small: this network needs at least {needed:,}")


def plan_best_slices(
    config: Config, network: NetworkShape, batch: int, plan: Callable[..., Plan], narrow: bool = False
) -> Plan:
    """Plan with the number of slices that the machine uses best: one for each of the fastest groups that fit.

    `plan` plans with `slices`, for the first of `groups` that fits. Raises ``PlanError`` if the network does not fit.
    """
    for count in group_costs(config, network, batch, AUTO, narrow):
        try:
            planned = plan(slices=count, groups=[count])
        except PlanError as error:
            problem = error
            continue
        if planned.groups == count:
            return planned
    raise problem


def _first_that_fits(budget: int | None, make: Callable[..., Plan], groups: Sequence[int]) -> Plan | None:
    for count in groups:
        try:
            plan = make(groups=count)
            if _fits(plan, budget):
                return plan
        except PlanError:  # a group has fewer channels than the layers need
            continue
    return None


def _fits(plan: Plan, budget: int | None) -> bool:
    """Tell whether a plan keeps within a budget, if any; its programs are not made if the windows do not."""
    return budget is None or (plan.windows_bytes <= budget and plan.memory_bytes <= budget)


def _estimates(plan: Plan) -> dict[int, int]:
    """Give the memory that plans of more segments will take at least, by some numbers of segments."""
    needs, steps = plan.map.stored.needs(), plan.map.steps
    of_vector = plan.map.memory.vector_bytes * plan.config.channels
    fixed = plan.windows_bytes - sum(array.vectors for array in plan.map.stored.regions) * of_vector
    sizes = {}
    for count in _counts(len(needs) * steps):
        segments = divide(needs, steps, count)
        largest = max(sum(needs[piece.layer] * len(piece.steps) for piece in segment) for segment in segments)
        sizes[count] = fixed + REGIONS * largest * of_vector + (count - 1) * PAGE_BYTES
    return sizes


def _counts(most: int) -> list[int]:
    """Give numbers of segments to look at, each twice the one before, and the most that there can be."""
    counts = [2]
    while counts[-1] < most:
        counts.append(min(most, 2 * counts[-1]))
    return [count for count in counts if count <= most]
