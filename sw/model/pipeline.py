"""The time of an iteration whose layers are spread over boards: see :mod:`etalstm.ranks.pipeline`.

Each board has a host of its own. Within a stage one thing happens after the other: arrays come over the network and to
the board, the board runs a pass, arrays leave. Only the gradients of micro-batches are added beside that, by the host.
What the host computes for the loss is left out, as with boards that share the batch.

Dimensions: B sequences, T steps, I inputs, H units.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from etalstm.model.boards import Links, exchange_seconds, gradient_bytes
from etalstm.network import WORD_BYTES, NetworkShape
from etalstm.pipelines import BACKWARD, FORWARD, Grid
from etalstm.slices import additions


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

    A rank takes an array over when it is ready to work on it. The last stage sends y to rank 0, and gets dy. The
    gradients of a micro-batch are read after its backward pass. At the end the pipelines exchange theirs. Then every
    session of the stage, one for each micro-batch that is kept there, takes the sum and is updated.

    Parameters
    ----------
    stage : int
    times : StageTimes
    grid : Grid
    network : NetworkShape
        Of all layers.
    sequences, steps : int
        Those of a micro-batch, T.
    links : Links
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
    """Give the time of an iteration.

    x goes to the first stages of other hosts before, dx comes back after. Rank 0 has one link for y and dy of all
    pipelines.

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

    x goes to the first stages and dx comes back, but where rank 0 has that stage; y goes up from stage to stage and to
    rank 0, dy comes down. Gradients are exchanged between the pipelines.
    """
    of_batch = WORD_BYTES * 2 * batch * steps
    of_others = of_batch * (grid.pipelines - 1) * network.input_size // grid.pipelines
    gradients = sum(gradient_bytes(network, range(network.layers)))
    return of_others + of_batch * grid.depth * network.hidden_size + 2 * (grid.pipelines - 1) * gradients


def last_additions(grid: Grid, stages: Sequence[Durations]) -> list[float]:
    """Give for each stage when its last gradients are added; all pipelines are alike."""
    merges = additions(grid.micro_batches)
    orders = [list(grid.place(stage).order()) for stage in range(grid.depth)]
    free, added, done = [0.0] * grid.depth, [0.0] * grid.depth, [0] * grid.depth
    ends: dict[tuple[str, int, int], float] = {}  # of each pass, by way, micro-batch and stage

    def needed(way: str, number: int, stage: int) -> tuple[str, int, int] | None:
        """Give the pass that one waits for; None if it waits for none but those before it on its own stage."""
        before = stage - 1 if way == FORWARD else stage + 1
        return (way, number, before) if 0 <= before < grid.depth else None

    while any(done[stage] < len(order) for stage, order in enumerate(orders)):
        for stage, order in enumerate(orders):
            while done[stage] < len(order):
                way, number = order[done[stage]]
                other = needed(way, number, stage)
                if other is not None and other not in ends:
                    break
                duration = stages[stage].forward if way == FORWARD else stages[stage].backward
                free[stage] = ends[way, number, stage] = max(free[stage], ends.get(other, 0.0)) + duration
                if way == BACKWARD:
                    added[stage] = max(added[stage], free[stage]) + merges[number] * stages[stage].added
                done[stage] += 1
    return added
