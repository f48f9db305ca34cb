"""The time of an iteration whose layers are spread over boards: see :mod:`etalstm.device.ranks.pipeline`.

Each board has a host of its own. Within a stage one thing happens after the other: arrays come over the network and to
the board, the board runs a pass, arrays leave. Only the gradients of micro-batches are added beside that, by the host.
What the host computes for the loss is left out, as with boards that share the batch.

Dimensions: B sequences, T steps, I inputs, H units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from etalstm.model.boards import Links, exchange_seconds, gradient_bytes
from etalstm.network.pipeline_grid import BACKWARD, FORWARD, Grid
from etalstm.network.shape import WORD_BYTES, NetworkShape
from etalstm.network.slices import additions


@dataclass(frozen=True)
class StageTimes:
    """What a stage's machine takes, in seconds.

    Members
    -------
    forward, backward : float
        For a micro-batch.
    update : float
    """

    forward: float
    backward: float
    update: float


@dataclass(frozen=True)
class Durations:
    """What the steps of a stage take, in seconds.

    Members
    -------
    forward, backward : float
        Of a micro-batch, with what comes from another host, and moves between board and host.
    added : float
        Two gradients of the stage, by the host.
    end : float
        From the last addition to the end of the update.
    """

    forward: float
    backward: float
    added: float
    end: float


def durations(
    stage: int, times: StageTimes, grid: Grid, network: NetworkShape, sequences: int, steps: int, links: Links
) -> Durations:
    """Say what the steps of a stage take.

    A rank receives an array when it is ready to work on it. The last stage sends y to rank 0 and receives dy. The
    gradients of a micro-batch are read from the board after its backward pass. At the end the pipelines exchange their
    gradients. A stage has a session for each micro-batch in flight. Each session takes the sum and is updated.

    Parameters
    ----------
    stage : int
    times : StageTimes
        Of this stage.
    grid, network, sequences, steps, links
        See :func:`pipeline_seconds`.
    """
    place = grid.place(stage)
    gradients = gradient_bytes(network, reversed(place.layers))
    read, of_steps = sum(gradients) / links.pcie, WORD_BYTES * sequences * steps
    outputs = of_steps * network.hidden_size
    across = (of_steps * network.inputs_of(place.layers[0]) + outputs) / links.pcie
    moved = outputs / links.network + links.latency
    alone = grid.pipelines == 1
    exchanged = 0.0 if alone else sum(exchange_seconds(layer, grid.pipelines, links) for layer in gradients)
    return Durations(
        forward=(0.0 if place.first else moved) + across + times.forward,
        backward=(2 if place.last else 1) * moved + across + times.backward + read,
        added=3 * sum(gradients) / links.host,  # two are read, one is written
        end=exchanged + place.most_kept * (read + times.update),
    )


def pipeline_seconds(
    times: Sequence[StageTimes], grid: Grid, network: NetworkShape, sequences: int, steps: int, links: Links
) -> float:
    """Give the time of an iteration, in seconds.

    Before the passes rank 0 sends x to the first stages on other hosts. After them their dx comes back. Meanwhile y and
    dy of all pipelines share rank 0's link.

    Parameters
    ----------
    times : sequence of StageTimes
        Of each stage.
    grid : Grid
    network : NetworkShape
        Of all layers.
    sequences, steps : int
        Those of a micro-batch, T.
    links : Links
    """
    of_stages = [durations(stage, times[stage], grid, network, sequences, steps, links) for stage in range(grid.depth)]
    words = sequences * steps * WORD_BYTES / links.network
    elsewhere = (grid.parts - grid.micro_batches) * words * network.input_size
    of_loss = grid.parts * words * network.hidden_size
    ends = last_additions(grid, of_stages)
    passes = max(end + stage.end for end, stage in zip(ends, of_stages, strict=True))
    return 2 * elsewhere + max(passes, of_loss)


def pipeline_bytes(network: NetworkShape, batch: int, steps: int, grid: Grid) -> int:
    """Give the bytes that all hosts together send in an iteration.

    Rank 0 sends x to the other first stages and receives their dx. y goes up from stage to stage and then to rank 0. dy
    comes down the same way. The pipelines exchange their gradients.
    """
    of_batch = WORD_BYTES * 2 * batch * steps
    of_others = of_batch * (grid.pipelines - 1) * network.input_size // grid.pipelines
    gradients = sum(gradient_bytes(network, range(network.layers)))
    return of_others + of_batch * grid.depth * network.hidden_size + 2 * (grid.pipelines - 1) * gradients


def last_additions(grid: Grid, stages: Sequence[Durations]) -> list[float]:
    """Give for each stage when its last gradients are added, in seconds; all pipelines are alike."""
    orders = [list(grid.place(stage).order()) for stage in range(grid.depth)]
    places = [{of_pass: place for place, of_pass in enumerate(order)} for order in orders]

    @cache
    def ended(stage: int, place: int) -> float:
        """Tell when a pass of a stage ends; 0 before the first."""
        if place < 0:
            return 0.0
        way, number = orders[stage][place]
        other = stage - 1 if way == FORWARD else stage + 1
        arrives = ended(other, places[other][way, number]) if 0 <= other < grid.depth else 0.0
        duration = stages[stage].forward if way == FORWARD else stages[stage].backward
        return max(ended(stage, place - 1), arrives) + duration

    def last_addition(stage: int) -> float:
        added = 0.0
        for number, merges in enumerate(additions(grid.micro_batches)):
            added = max(added, ended(stage, places[stage][BACKWARD, number])) + merges * stages[stage].added
        return added

    return [last_addition(stage) for stage in range(grid.depth)]
