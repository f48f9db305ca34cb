"""The time of an iteration that several boards share: what their hosts and the network add to the machines' cycles.

Describes :mod:`etalstm.device.ranks`, with one board in a host. What the host computes for the loss is left out.

Boards that share the batch: rank 0 cuts the batch, each board runs its part of the passes, and the gradients are read,
added between the hosts layer by layer, and written back for the update.

Boards that share the layers, as pipelines: within a stage one thing happens after the other. Arrays come over the
network and to the board, the board runs a pass, arrays leave. Only the gradients of micro-batches are added beside
that, by the host.

Dimensions: B sequences, T steps, I inputs, H units.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache

from etalstm.network.pipeline_grid import BACKWARD, FORWARD, Grid
from etalstm.network.shape import WORD_BYTES, NetworkShape
from etalstm.network.slices import additions

PCIE_BYTES = 8e9 * 16 * 128 / 130 / 8
"""Bytes a second of 16 lanes of PCIe 3.0: 8 GT/s a lane, of 130 bits 128 carry data."""


@dataclass(frozen=True)
class Links:
    """What moves the data between boards, in bytes a second each way: `pcie` between a board and its host, `network`
    between two hosts, for each of them (100 Gbit/s), `host` the host's memory, when it adds or copies arrays (assumed).

    `latency`: seconds of a message; assumed. `gradient_words`: words that are moved of each gradient; with integers
    there are two, as whole sums are added.
    """

    pcie: float = PCIE_BYTES
    network: float = 100e9 / 8
    host: float = 10e9
    latency: float = 10e-6
    gradient_words: int = 1

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ValueError(f"{field.name} must be above 0, got {value}")


@dataclass(frozen=True)
class Iteration:
    """The time of an iteration, in seconds."""

    machine: float  # the passes and the update on the board
    activations: float  # x to the boards and y back, dy to the boards and dx back
    gradients: float  # what all boards' gradients take until each has their sum

    @property
    def seconds(self) -> float:
        """All of it, one after the other."""
        return self.machine + self.activations + self.gradients


def iteration(
    machine: float,
    boards: int,
    network: NetworkShape,
    batch: int,
    steps: int,
    links: Links = Links(),
    passes: Sequence[float] = (),
) -> Iteration:
    """Give the time of an iteration of a network with B sequences on all boards together, and T steps.

    `machine`: seconds of a board's programs, for its part of the batch. `passes`: of `machine`, what the backward pass
    of each layer takes, the last layer's first. Default: not known; gradients then come after all of it.
    """
    layers = gradient_bytes(network, reversed(range(network.layers)), links.gradient_words)
    gradients = gradients_seconds(layers, boards, links, passes) if boards > 1 else 0.0
    return Iteration(machine, activations_seconds(boards, network, batch, steps, links), gradients)


def gradient_bytes(network: NetworkShape, layers: Iterable[int], words: int) -> list[int]:
    """Give the bytes that are moved of some layers' gradients, so many words of each."""
    return [words * WORD_BYTES * network.rows * (network.columns_of(layer) + 1) for layer in layers]


def activation_bytes(network: NetworkShape, batch: int, steps: int) -> int:
    """Give the bytes of x, y, dy and dx."""
    return WORD_BYTES * steps * batch * 2 * (network.input_size + network.hidden_size)


def network_bytes(network: NetworkShape, batch: int, steps: int, boards: int, links: Links = Links()) -> int:
    """Give the bytes that all hosts together send in an iteration: activations, and gradients in both directions."""
    gradients = sum(gradient_bytes(network, range(network.layers), links.gradient_words))
    return activation_bytes(network, batch, steps) * (boards - 1) // boards + 2 * (boards - 1) * gradients


def activations_seconds(boards: int, network: NetworkShape, batch: int, steps: int, links: Links) -> float:
    """Give the time that x, y, dy and dx take: between rank 0 and the other hosts, then over each board's PCIe."""
    moved = activation_bytes(network, batch, steps)
    return moved * (1 - 1 / boards) / links.network + moved / boards / links.pcie


def gradients_seconds(layers: Sequence[int], boards: int, links: Links, passes: Sequence[float] = ()) -> float:
    """Give the time by which gradients delay the update.

    A layer's gradients are read while the board works on the layer below, which waits for the end of that, and are
    exchanged beside both. All are written back once all sums are there.

    `layers` are the bytes of each layer's gradients, in the order of the exchange, `passes` the seconds of each layer's
    backward pass. Without `passes` all gradients are there at once.
    """
    passes = passes or [0.0] * len(layers)
    ended, read, exchanged = passes[0], 0.0, 0.0
    for size, below in zip(layers, [*passes[1:], 0.0], strict=True):
        read = ended + size / links.pcie
        exchanged = max(read, exchanged) + exchange_seconds(size, boards, links)
        ended = max(ended + below, read)
    return exchanged + sum(layers) / links.pcie - sum(passes)


def exchange_seconds(size: int, boards: int, links: Links) -> float:
    """Give the time in which all hosts get the sum of their arrays: a share from all, added, and posted to all."""
    between = 2 * (1 - 1 / boards) * size / links.network + 2 * (boards - 1) * links.latency
    return between + 3 * size / links.host  # laid out for the exchange, added, and taken apart


@dataclass(frozen=True)
class StageTimes:
    """What a stage's machine takes, in seconds: for passes of a micro-batch, and for an update."""

    forward: float
    backward: float
    update: float


@dataclass(frozen=True)
class Durations:
    """What the steps of a stage take, in seconds."""

    # forward, backward: of a micro-batch, with what comes from another host, and moves between board and host
    forward: float
    backward: float
    added: float  # two gradients of the stage, by the host
    end: float  # from the last addition to the end of the update


def durations(
    stage: int, times: StageTimes, grid: Grid, network: NetworkShape, sequences: int, steps: int, links: Links
) -> Durations:
    """Say what the steps of a stage take; see :func:`pipeline_seconds` for the parameters.

    A rank receives an array when it is ready to work on it. The last stage sends y to rank 0 and receives dy. The
    gradients of a micro-batch are read from the board after its backward pass. At the end the pipelines exchange their
    gradients. A stage has a session for each micro-batch in flight. Each session takes the sum and is updated.
    """
    role = grid.role(stage)
    gradients = gradient_bytes(network, reversed(role.layers), links.gradient_words)
    read, of_steps = sum(gradients) / links.pcie, WORD_BYTES * sequences * steps
    outputs = of_steps * network.hidden_size
    across = (of_steps * network.inputs_of(role.layers[0]) + outputs) / links.pcie
    moved = outputs / links.network + links.latency
    alone = grid.pipelines == 1
    exchanged = 0.0 if alone else sum(exchange_seconds(layer, grid.pipelines, links) for layer in gradients)
    return Durations(
        forward=(0.0 if role.first else moved) + across + times.forward,
        backward=(2 if role.last else 1) * moved + across + times.backward + read,
        added=3 * sum(gradients) / links.host,  # two are read, one is written
        end=exchanged + role.most_kept * (read + times.update),
    )


def pipeline_seconds(
    times: Sequence[StageTimes], grid: Grid, network: NetworkShape, sequences: int, steps: int, links: Links
) -> float:
    """Give the time of an iteration of a network, in seconds, from the times of each stage and the size of a
    micro-batch.

    Before the passes rank 0 sends x to the first stages on other hosts. After them their dx comes back. Meanwhile y and
    dy of all pipelines share rank 0's link.
    """
    of_stages = [durations(stage, times[stage], grid, network, sequences, steps, links) for stage in range(grid.depth)]
    words = sequences * steps * WORD_BYTES / links.network
    elsewhere = (grid.parts - grid.micro_batches) * words * network.input_size
    of_loss = grid.parts * words * network.hidden_size
    ends = last_additions(grid, of_stages)
    passes = max(end + stage.end for end, stage in zip(ends, of_stages, strict=True))
    return 2 * elsewhere + max(passes, of_loss)


def pipeline_bytes(network: NetworkShape, batch: int, steps: int, grid: Grid, links: Links = Links()) -> int:
    """Give the bytes that all hosts together send in an iteration.

    Rank 0 sends x to the other first stages and receives their dx. y goes up from stage to stage and then to rank 0. dy
    comes down the same way. The pipelines exchange their gradients.
    """
    of_batch = WORD_BYTES * 2 * batch * steps
    of_others = of_batch * (grid.pipelines - 1) * network.input_size // grid.pipelines
    gradients = sum(gradient_bytes(network, range(network.layers), links.gradient_words))
    return of_others + of_batch * grid.depth * network.hidden_size + 2 * (grid.pipelines - 1) * gradients


def last_additions(grid: Grid, stages: Sequence[Durations]) -> list[float]:
    """Give for each stage when its last gradients are added, in seconds; all pipelines are alike."""
    orders = [list(grid.role(stage).order()) for stage in range(grid.depth)]
    turns = [{of_pass: turn for turn, of_pass in enumerate(order)} for order in orders]

    @cache
    def ended(stage: int, turn: int) -> float:
        if turn < 0:
            return 0.0
        way, number = orders[stage][turn]
        other = stage - 1 if way == FORWARD else stage + 1
        arrives = ended(other, turns[other][way, number]) if 0 <= other < grid.depth else 0.0
        duration = stages[stage].forward if way == FORWARD else stages[stage].backward
        return max(ended(stage, turn - 1), arrives) + duration

    def last_addition(stage: int) -> float:
        added = 0.0
        for number, merges in enumerate(additions(grid.micro_batches)):
            added = max(added, ended(stage, turns[stage][BACKWARD, number])) + merges * stages[stage].added
        return added

    return [last_addition(stage) for stage in range(grid.depth)]
