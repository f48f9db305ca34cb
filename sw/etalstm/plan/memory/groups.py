"""Batch groups: the channels of a machine work on several parts of a batch at once."""

import itertools
import math
from dataclasses import replace

from etalstm.errors import PlanError
from etalstm.network.cells.cell import Cell
from etalstm.network.shape import NetworkShape
from etalstm.network.slices import AUTO, Parts, part_counts
from etalstm.plan.memory.allocation import batch_of
from etalstm.plan.memory.tiling import Share, stay, weight_vectors
from etalstm_hw.config import Config


def machine_of_group(config: Config, groups: int) -> Config:
    """Give the machine that one of so many equal groups of channels is."""
    if groups not in config.group_counts:
        counts = ", ".join(map(str, config.group_counts))
        raise ValueError(f"groups must be one of {counts}, got {groups}")
    if groups == 1:
        return config
    return replace(config, channels=config.channels // groups, channels_per_port=1, broadcasters=1, port_bytes=0)


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


def group_counts(config: Config, network: NetworkShape, batch: int, slices: int, narrow: bool = False) -> list[int]:
    """Give the numbers of groups that the slices of a batch can be arranged for, the fastest first."""
    return list(group_costs(config, network, batch, slices, narrow))


def best_slices(config: Config, network: NetworkShape, batch: int, narrow: bool = False) -> list[int]:
    """Give numbers of slices for which each group of channels has one slice, the fastest first."""
    return list(group_costs(config, network, batch, AUTO, narrow))


def step_cycles(
    config: Config, network: NetworkShape, parts: Parts, cell: Cell | None = None, *, narrow: bool = False
) -> float:
    """Estimate the cycles that the products of a time step take, if each group works on a part of the batch.

    Forward pass, backward pass and weights' gradient each use every vector of a channel's weights once for each
    sequence; a MAC takes a cycle. In forward and backward pass the memory port brings the next vector meanwhile, for
    each batch tile anew, unless the weights of a layer stay in the lanes. Nothing is taken to be zero. With `narrow` a
    vector of weights holds two tiles. The cell is the network's, unless another one is given.

    Returns
    -------
    float
        Infinity if not even one sequence fits the lanes' memories.
    """
    machine, cell = machine_of_group(config, parts.count), cell or network.declared
    try:
        tiles = batch_of(machine, cell, network.hidden_size, parts.places, parts.slices_of_part).count
    except PlanError:
        return math.inf
    port_cycles = tiles * config.vector_beats * config.channels_per_port
    units = Share(network.hidden_size, machine.channels, machine.lanes)
    cycles = 0
    for layer, product in itertools.product(range(network.layers), cell.products):
        gates, columns = len(product.gates), [units] * len(product.operands)
        if "x" in product.operands:
            columns[0] = Share(network.inputs_of(layer), machine.channels, machine.lanes)
        forward = gates * units.tiles, sum(share.size for share in columns)
        backward = sum(share.tiles for share in columns), gates * units.size
        for of_scalar, scalars in (forward, backward):
            vectors = weight_vectors(of_scalar, narrow)
            products = of_scalar * parts.places
            streams = not stay(machine, vectors, scalars)
            cycles += scalars * (max(products, vectors * port_cycles) if streams else products)
        cycles += math.prod(backward) * parts.places
    return cycles


def layer_cycles(config: Config, network: NetworkShape, sequences: int) -> list[float]:
    """Estimate the cycles that the products of each layer take in a time step of so many sequences."""
    layers = [network.of_layers(range(layer, layer + 1)) for layer in range(network.layers)]
    return [step_cycles(config, layer, Parts(sequences, 1, 1)) for layer in layers]
