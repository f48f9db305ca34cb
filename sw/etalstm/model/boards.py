"""The time of an iteration that several boards share: what their host and the network add to the machines' cycles.

Describes :mod:`etalstm.device.ranks`, with one board in a host: rank 0 cuts the batch, each board runs its part of the
passes, and the gradients are read, added between the hosts layer by layer, and written back for the update.

Dimensions: B sequences, T steps, I inputs, H units.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from etalstm.network.shape import WORD_BYTES, NetworkShape

PCIE_BYTES = 8e9 * 16 * 128 / 130 / 8
"""Bytes a second of 16 lanes of PCIe 3.0: 8 GT/s a lane, of 130 bits 128 carry data."""


@dataclass(frozen=True)
class Links:
    """What moves the data between boards, bytes a second each way.

    Members
    -------
    pcie : float
        Between a board and its host.
    network : float
        Between two hosts, for each of them; 100 Gbit/s.
    host : float
        Of a host's memory, when it adds or copies arrays; assumed.
    latency : float
        Seconds of a message; assumed.
    """

    pcie: float = PCIE_BYTES
    network: float = 100e9 / 8
    host: float = 10e9
    latency: float = 10e-6

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ValueError(f"{field.name} must be above 0, got {value}")


@dataclass(frozen=True)
class Iteration:
    """The time of an iteration, in seconds.

    Members
    -------
    machine : float
        The passes and the update on the board.
    activations : float
        x to the boards and y back, dy to the boards and dx back.
    gradients : float
        What all boards' gradients take until each has their sum.
    """

    machine: float
    activations: float
    gradients: float

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
    """Give the time of an iteration.

    Parameters
    ----------
    machine : float
        Seconds of a board's programs, for its part of the batch.
    boards : int
    network : NetworkShape
    batch, steps : int
        B of all boards together, T.
    links : Links
    passes : sequence of float
        Of `machine`, what the backward pass of each layer takes, the last layer's first. Default: not known; gradients
        then come after all of it.
    """
    layers = gradient_bytes(network, reversed(range(network.layers)))
    gradients = gradients_seconds(layers, boards, links, passes) if boards > 1 else 0.0
    return Iteration(machine, activations_seconds(boards, network, batch, steps, links), gradients)


def gradient_bytes(network: NetworkShape, layers: Iterable[int]) -> list[int]:
    """Give the bytes of some layers' gradients."""
    return [WORD_BYTES * network.rows * (network.columns_of(layer) + 1) for layer in layers]


def activation_bytes(network: NetworkShape, batch: int, steps: int) -> int:
    """Give the bytes of x, y, dy and dx."""
    return WORD_BYTES * steps * batch * 2 * (network.input_size + network.hidden_size)


def network_bytes(network: NetworkShape, batch: int, steps: int, boards: int) -> int:
    """Give the bytes that all hosts together send in an iteration: activations, and gradients in both directions."""
    gradients = sum(gradient_bytes(network, range(network.layers)))
    return activation_bytes(network, batch, steps) * (boards - 1) // boards + 2 * (boards - 1) * gradients


def activations_seconds(boards: int, network: NetworkShape, batch: int, steps: int, links: Links) -> float:
    """Give the time that x, y, dy and dx take: between rank 0 and the other hosts, then over each board's PCIe."""
    moved = activation_bytes(network, batch, steps)
    return moved * (1 - 1 / boards) / links.network + moved / boards / links.pcie


def gradients_seconds(layers: Sequence[int], boards: int, links: Links, passes: Sequence[float] = ()) -> float:
    """Give the time by which gradients delay the update.

    A layer's gradients are read while the board works on the layer below, which waits for the end of that, and are
    exchanged beside both. All are written back once all sums are there.

    Parameters
    ----------
    layers : sequence of int
        Bytes of each layer's gradients, in the order of the exchange.
    boards : int
    links : Links
    passes : sequence of float
        Seconds of each layer's backward pass. Default: no time, all gradients are there at once.
    """
    passes = passes or [0.0] * len(layers)
    ended, read, exchanged = passes[0], 0.0, 0.0
    for size, below in zip(layers, [*passes[1:], 0.0], strict=True):
        read = ended + size / links.pcie
        exchanged = max(read, exchanged) + exchange_seconds(size, boards, links)
        ended = max(ended + below, read)
    return exchanged + sum(layers) / links.pcie - sum(passes)


def exchange_seconds(size: int, boards: int, links: Links) -> float:
    """Give the time in which all hosts get the sum of their arrays: a share from all, added, and sent to all."""
    between = 2 * (1 - 1 / boards) * size / links.network + 2 * (boards - 1) * links.latency
    return between + 3 * size / links.host  # laid out for the exchange, added, and taken apart
