"""Batch groups: the channels of a machine work on several parts of a batch at once."""

from dataclasses import replace

from etalstm.hw.config import Config
from etalstm.network import NetworkShape
from etalstm.plan.tiling import Share
from etalstm.slices import Parts, part_counts


def machine_of_group(config: Config, groups: int) -> Config:
    """Give the machine that one of so many equal groups of channels is."""
    if groups not in config.group_counts:
        counts = ", ".join(map(str, config.group_counts))
        raise ValueError(f"groups must be one of {counts}, got {groups}")
    if groups == 1:
        return config
    return replace(config, channels=config.channels // groups, channels_per_port=1, broadcasters=1, port_bytes=0)


def group_counts(config: Config, network: NetworkShape, batch: int, slices: int) -> list[int]:
    """Give the numbers of groups that the slices of a batch can be arranged for, the fastest first.

    A group works on equal parts of the batch, each a node of the tree of slices. Of equally fast numbers the smallest
    comes first: every group holds weights and gradients of its own.
    """
    possible = [count for count in part_counts(slices) if count in config.group_counts]
    return sorted(possible, key=lambda count: mac_cycles(config, network, Parts(batch, slices, count)))


def best_slices(config: Config, network: NetworkShape, batch: int) -> list[int]:
    """Give numbers of slices for which each group of channels has one slice, the fastest first."""
    possible = [count for count in config.group_counts if count <= batch]
    return sorted(possible, key=lambda count: mac_cycles(config, network, Parts(batch, count, count)))


def mac_cycles(config: Config, network: NetworkShape, parts: Parts) -> int:
    """Estimate the cycles that the MACs of a time step take, if each group works on a part of the batch.

    A scalar takes a cycle for each tile that a channel has. For each sequence the forward pass broadcasts a layer's
    inputs and units to the tiles of the gates. The backward pass and the weights' gradient broadcast the gates to the
    tiles of inputs and units. Nothing is taken to be zero.
    """
    machine = machine_of_group(config, parts.count)
    units = Share(network.hidden_size, machine.channels, machine.lanes).tiles
    cycles = 0
    for layer in range(network.layers):
        inputs = network.inputs_of(layer)
        columns = Share(inputs, machine.channels, machine.lanes).tiles + units
        cycles += units * (inputs + network.hidden_size) + 2 * columns * network.hidden_size
    return parts.places * cycles
