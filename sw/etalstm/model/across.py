"""How much faster several boards are than one, which share the batch or the layers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from etalstm.model.boards import (
    Iteration,
    Links,
    StageTimes,
    iteration,
    network_bytes,
    pipeline_bytes,
    pipeline_seconds,
)
from etalstm.network.pipeline_grid import Grid, best_micro_batches, grid_of
from etalstm.network.shape import NetworkShape
from etalstm.plan.choose.fit import layer_cycles
from etalstm_hw.config import Config

Size = tuple[NetworkShape, int, int]  # a network, B and T


def batch_of_board(batch: int, boards: int) -> int:
    """Give the sequences of the board that has most; ``ValueError`` if there are more boards than sequences."""
    if boards > batch:
        raise ValueError(f"boards must be at most the batch, {batch} sequences, got {boards}")
    return -(-batch // boards)


def grids(boards: int, config: Config, network: NetworkShape, batch: int) -> Iterator[Grid]:
    """Give the arrangements of boards as pipelines: as many in each as there may be, in numbers that slices allow.

    Fewer micro-batches leave stages waiting for longer, and use each load of weights for more sequences. So all powers
    of two are given, from as many micro-batches as there are stages.
    """
    for depth in range(2, min(boards, network.layers) + 1):
        pipelines = boards // depth
        if boards % depth == 0 and pipelines & (pipelines - 1) == 0 and pipelines <= batch:
            count = best_micro_batches(depth, batch // pipelines)
            while count >= min(depth, batch // pipelines):
                parts = pipelines * count
                yield grid_of(boards, depth, parts, layer_cycles(config, network, -(-batch // parts)))
                count //= 2


class Across:
    """What several boards make of iterations of some networks.

    `config` is that of a board's machine, `sizes` those of the networks, the whole batch each. `measure` gives from
    sizes and options what :func:`etalstm.model.measured.measure` gives for each. With `pipelines` these are looked at,
    too: not where layers differ in what is reduced; with `each` also those where every board has as many sequences as
    the one.
    """

    def __init__(
        self,
        boards: int,
        links: Links,
        config: Config,
        sizes: Sequence[Size],
        measure: Callable[..., Iterable[dict]],
        *,
        pipelines: bool,
        each: bool = True,
    ):
        self._boards, self._config = boards, config
        self._links = replace(links, gradient_words=2) if config.integers else links
        self._pipelines, self._each = pipelines, each
        needed = list(dict.fromkeys(needed for size in sizes for needed in self._needed(*size)))
        self._found = dict(zip(needed, measure(needed), strict=True))
        parts = [(network, batch_of_board(batch, boards), steps) for network, batch, steps in sizes]
        self._parts = dict(zip(sizes, measure(parts, layers_apart=True), strict=True))

    def _needed(self, network: NetworkShape, batch: int, steps: int) -> Iterator[Size]:
        yield network, batch, steps
        for whole in (batch, self._boards * batch) if self._each else (batch,):
            for grid in self._grids(network, whole):
                yield from self._stages(grid, network, whole, steps)

    def _grids(self, network: NetworkShape, batch: int) -> Iterator[Grid]:
        return grids(self._boards, self._config, network, batch) if self._pipelines else iter(())

    @staticmethod
    def _stages(grid: Grid, network: NetworkShape, batch: int, steps: int) -> list[Size]:
        """Give what each stage works on at once."""
        return [(network.of_layers(layers), -(-batch // grid.parts), steps) for layers in grid.stages]

    def alone(self, network: NetworkShape, batch: int, steps: int) -> dict:
        """Give what was measured for one board."""
        return self._found[network, batch, steps]

    def shared(self, network: NetworkShape, batch: int, steps: int) -> dict:
        """Say what the boards make of a batch that they share.

        Gives a dict: ``alone``: milliseconds of an iteration on one board; ``boards``; of a board that shares the batch
        ``batch_of_board``, ``groups``, ``cycles``; milliseconds of such an iteration: ``machine``, ``activations``,
        ``gradients``, and ``milliseconds`` of all; ``speedup`` over one board; ``speedup_with_batch_each``: in
        sequences a second, where each board has as many sequences as the one; and ``network_bytes`` that all hosts
        send. ``pipeline`` and ``pipeline_with_batch_each``: the fastest arrangement with the layers spread over boards,
        None if there is none; its ``cycles`` are those of the board that works longest.
        """
        found, part = self.alone(network, batch, steps), self._parts[network, batch, steps]
        one = iteration(found["milliseconds"] / 1e3, 1, network, batch, steps, self._links).seconds
        all_ = iteration(part["milliseconds"] / 1e3, self._boards, network, batch, steps, self._links, _passes(part))
        whole, of_layers = self._boards * batch, _passes(part)
        scale = stage_times(found).backward / sum(of_layers)  # layers' shares do not depend on the batch
        of_each = [scale * seconds for seconds in of_layers]
        each = iteration(found["milliseconds"] / 1e3, self._boards, network, whole, steps, self._links, of_each)
        spread_each = self._pipeline(network, whole, steps, self._boards * one) if self._each else None
        return {
            "alone": 1e3 * one,
            "boards": self._boards,
            "batch_of_board": batch_of_board(batch, self._boards),
            "groups": part["groups"],
            "cycles": part["cycles"],
            **_milliseconds(all_),
            "network_bytes": network_bytes(network, batch, steps, self._boards, self._links),
            "speedup": one / all_.seconds,
            "speedup_with_batch_each": self._boards * one / each.seconds,
            "pipeline": self._pipeline(network, batch, steps, one),
            "pipeline_with_batch_each": spread_each,
        }

    def _pipeline(self, network: NetworkShape, batch: int, steps: int, one: float) -> dict | None:
        """Describe the fastest arrangement; `one` is the seconds that one board takes for the same sequences."""
        found = []
        for grid in self._grids(network, batch):
            sizes = self._stages(grid, network, batch, steps)
            times = [stage_times(self._found[size]) for size in sizes]
            seconds = pipeline_seconds(times, grid, network, sizes[0][1], steps, self._links)
            arrangement: dict[str, Any] = {
                "stages": [len(layers) for layers in grid.stages],
                "pipelines": grid.pipelines,
                "micro_batches": grid.micro_batches,
                "sequences": sizes[0][1],
                "network_bytes": pipeline_bytes(network, batch, steps, grid, self._links),
                "cycles": max(self._cycles(grid, stage, size) for stage, size in enumerate(sizes)),
                "milliseconds": 1e3 * seconds,
                "speedup": one / seconds,
            }
            found.append(arrangement)
        return min(found, key=lambda each: each["milliseconds"], default=None)

    def _cycles(self, grid: Grid, stage: int, size: Size) -> int:
        """Give the cycles of a board in an iteration: each session of a stage is updated."""
        found = self._found[size]
        updates = grid.role(stage).most_kept
        return grid.micro_batches * (_of(found, "forward") + _of(found, "backward")) + updates * _of(found, "update")


def remembering(measure: Callable[..., Iterable[dict]]) -> Callable[..., list[dict]]:
    """Give a function that measures no size twice: other numbers of boards may have parts of the same size."""
    known: dict[tuple[Size, bool], dict] = {}

    def measured(sizes: list[Size], layers_apart: bool = False) -> list[dict]:
        new = [size for size in sizes if (size, layers_apart) not in known]
        known.update(((size, layers_apart), one) for size, one in zip(new, found(new, layers_apart), strict=True))
        return [known[size, layers_apart] for size in sizes]

    def found(sizes: list[Size], layers_apart: bool) -> Iterable[dict]:
        return measure(sizes, layers_apart=layers_apart) if sizes else ()

    return measured


def stage_times(found: Mapping) -> StageTimes:
    """Give the times of passes, of what was measured."""
    seconds = found["milliseconds"] / 1e3 / found["cycles"]
    return StageTimes(*(seconds * _of(found, kind) for kind in ("forward", "backward", "update")))


def _passes(found: Mapping) -> list[float]:
    """Give what the backward pass of each layer takes, in seconds, the last layer's first."""
    seconds = found["milliseconds"] / 1e3 / found["cycles"]
    return [seconds * cycles for name, cycles in found["passes"].items() if name.startswith("backward")][::-1]


def _of(found: Mapping, kind: str) -> int:
    """Give the cycles of one kind of programs."""
    return sum(cycles for name, cycles in found["passes"].items() if name.startswith(kind))


def _milliseconds(found: Iteration) -> dict[str, float]:
    parts = {"machine": found.machine, "activations": found.activations, "gradients": found.gradients}
    return {name: 1e3 * seconds for name, seconds in (parts | {"milliseconds": found.seconds}).items()}
