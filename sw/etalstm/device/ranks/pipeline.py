"""A device whose layers are spread over ranks: rank 0 has the batch, micro-batches go from stage to stage."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import chain
from threading import Event
from typing import Any

import numpy as np

from etalstm.device import Device, InputGradients, Outputs, TrainingShape
from etalstm.device.access import exclusive
from etalstm.device.machine.parts import join_factors, shape_of_part, usage_of_batch
from etalstm.device.ranks.device import RanksDevice, TeamSession
from etalstm.device.ranks.stage import Piece, shape_of_stage
from etalstm.device.ranks.team import Call, Team
from etalstm.device.results import SliceLoss
from etalstm.device.settled import MOST_TRIES
from etalstm.device.shape import check_delta_threshold
from etalstm.errors import DeviceError
from etalstm.host.mpi import Messages
from etalstm.network.exponents import Peaks
from etalstm.network.pipeline_grid import Grid, Role, best_micro_batches, grid_of
from etalstm.network.shape import LayerParameters, check_float32, check_size
from etalstm.network.slices import Parts
from etalstm.plan.choose.fit import layer_cycles
from etalstm_hw.config import preset as named_preset


class LossDesk:
    """Answers the last stages: they send y of a micro-batch, one of `parts`, and get dy."""

    def __init__(self, messages: Messages, grid: Grid, parts: Parts, loss: SliceLoss):
        self._messages, self._grid, self._parts, self._loss = messages, grid, parts, loss
        self._error: Exception | None = None
        self._stopped = Event()

    def stop(self) -> None:
        """Let :meth:`serve` end, though micro-batches have not come: the call of the ranks has not been made."""
        self._stopped.set()

    def serve(self) -> np.ndarray:
        """Answer until all micro-batches have come; give y of the whole batch, (T, B, H).

        What the loss has raised is raised here, once all have come.
        """
        lasts = [rank for rank in range(self._grid.ranks) if self._grid.role(rank).last]
        found: dict[int, np.ndarray] = {}
        for _ in range(self._grid.parts):
            message = self._messages.receive_any(lasts, self._stopped.is_set)
            if message is None:
                break
            rank, (number, y) = message
            if y is not None:
                found[number] = y
            self._messages.post(self._answer(number, y), rank)
        self._messages.finish()
        if self._error:
            raise self._error
        if len(found) < self._grid.parts:
            raise DeviceError("not every micro-batch has come to the loss")  # a rank's own error is raised before
        return self._parts.join([found[number] for number in range(self._grid.parts)], 1)

    def _answer(self, number: int, y: np.ndarray | None) -> np.ndarray | None:
        """Give dy; None if the stage has none for it, or a loss was not finite."""
        if y is None or self._error:
            return None
        count = self._parts.slices_of_part
        of_parts = self._parts.sequences(number).reshape(count, -1)
        try:
            dy = np.zeros_like(y)
            for position, sequences in enumerate(of_parts):
                first, real = position * sequences.size, np.count_nonzero(sequences >= 0)  # empty places come last
                of_slice = slice(first, first + real)
                of_y = y[:, of_slice]
                dy[:, of_slice] = check_float32("dy", self._loss(number * count + position, of_y), of_y.shape)
            return dy
        except Exception as error:  # raised when no stage waits any more
            self._error = error
            return None


class PipelineSession(TeamSession):
    """Has micro-batches go through stages of layers, with the bits of one machine that has the whole batch."""

    exact = True

    def __init__(self, shape: TrainingShape, grid: Grid, team: Team, number: int):
        super().__init__(shape, Parts(shape.batch, shape.execution.slices, grid.parts), team, number)
        self._grid, self._measured = grid, False

    def _each(self, name: str, arguments: Callable[[Role], tuple]) -> list:
        return self._team.each(self._calls(name, arguments))

    def _calls(self, name: str, arguments: Callable[[Role], tuple]) -> list[Call]:
        roles = map(self._grid.role, range(self._grid.ranks))
        return [Call(name, arguments(role), self.number) for role in roles]

    def _load(self, parameters, velocities):
        self._each(
            "on_each", lambda role: ("_load", *([of[n] for n in role.layers] for of in (parameters, velocities)))
        )

    def _store_as(self, shape):
        self._each("on_each", lambda role: ("store_as", shape.execution.storage.of_layers(role.layers)))

    def _send_as(self, shape):
        self._each("on_each", lambda role: ("send_as", shape.execution.delta_inputs.of_layers(role.layers)))

    def _equal(self, name: str) -> list[LayerParameters]:
        digests = self._all("digests", name)
        for rank, of_rank in enumerate(digests):
            first = rank % self._grid.depth
            if set(of_rank) != set(digests[first][:1]):
                raise DeviceError(f"the {name} of rank {rank} are not those of rank {first}: one has miscomputed")
        return list(chain.from_iterable(self._all("read", name)))

    def _scrub(self):
        self._all("on_each", "_scrub")

    def _forward(self, x, lengths, h0, c0):
        found = self._each("forward", lambda role: self._arguments(role, x, lengths, h0, c0))
        return self._outputs(found, self._parts.join([outputs.y for outputs in self._of_stages(found)[-1]], 1))

    @exclusive
    def forward_backward(
        self, x: np.ndarray, loss: SliceLoss, *, delta_threshold: float = 0.0, measured: bool = False, **inputs: Any
    ) -> tuple[Outputs, InputGradients]:
        """Run forward and backward pass, while micro-batches are at different stages: see :class:`BothPasses`.

        A thread of rank 0 computes the loss.
        """
        checked = self._begin_forward("forward_backward", x, **inputs)
        x, lengths, h0, _ = checked
        threshold = check_delta_threshold(self.shape, delta_threshold)
        if self.shape.execution.arithmetic.exact:
            self._begin_exponents(x, lengths, h0)
        for _ in range(MOST_TRIES):
            outputs = self._both_passes(checked, loss, threshold, measured)
            if not self.shape.execution.arithmetic.exact or self._settled():
                break
        else:
            raise DeviceError(f"the exponents of δ have not settled in {MOST_TRIES} passes")
        self._measured = measured
        self._stage = "backward"
        return outputs, self._input_gradients()

    def _settled(self) -> bool:
        """Tell whether the passes stand with the present exponents; then the gradients of all ranks are added."""
        of_stages = zip(*[iter(self._all("peaks"))] * self._grid.depth, strict=True)
        peaks = [Peaks.together(list(of_stage)) for of_stage in zip(*of_stages, strict=True)]
        whole = Peaks(*(np.concatenate([getattr(p, name) for p in peaks]) for name in ("largest", "saturated")))
        stands = self._exponents.settle_delta(whole, self._elements_of_delta())
        if stands:
            self._all("add_sums")
        return stands

    def _both_passes(self, checked: tuple, loss: SliceLoss, threshold: float, measured: bool) -> Outputs:
        calls = self._calls("forward_backward", lambda at: (*self._arguments(at, *checked), threshold, measured))
        desk = LossDesk(self._team.losses, self._grid, self._parts, loss)
        with ThreadPoolExecutor(1, "loss") as thread:
            y = thread.submit(copy_context().run, desk.serve)
            try:
                found = self._team.each(calls)
            finally:
                desk.stop()  # if the ranks have answered, all micro-batches have come
        return self._outputs(found, y.result())

    def _operand_peaks(self):
        shape = self._exponents.operands.shape  # an LSTM's operands have exponents that no peak moves
        return Peaks(np.zeros(shape), np.zeros(shape, np.int64))

    def _arguments(self, role: Role, x, lengths, h0, c0) -> tuple[np.ndarray, tuple, list[Piece]]:
        """Give what a rank needs for its forward passes."""
        layers = slice(role.layers.start, role.layers.stop)
        exponents = tuple(each[layers] for each in self._exponents.now)
        return (
            self._skipped[layers],
            exponents,
            [
                Piece(
                    self._parts.take(x, part, 1) if role.first else None,
                    self._parts.take(lengths, part, 0),
                    self._parts.take(h0[layers], part, 1),
                    self._parts.take(c0[layers], part, 1),
                    self._shared.of_sequences(self._parts.sequences(part)) if role.first and self._shared else None,
                )
                for part in role.parts
            ],
        )

    def _of_stages(self, found: list[list]) -> list[list]:
        """Collect the ranks' results, one for each of their micro-batches, by stage."""
        depth = self._grid.depth
        return [list(chain.from_iterable(found[stage::depth])) for stage in range(depth)]

    def _of_parts(self, name: str) -> list[list]:
        """Give by micro-batch what was found for all layers."""
        stages = self._of_stages(self._all("found", name))
        return [list(chain.from_iterable(of_part)) for of_part in zip(*stages, strict=True)]

    def _joined(self, stages: list[list[np.ndarray]]) -> np.ndarray:
        """Put arrays by stage and micro-batch, (L, b, H), together: (L, B, H)."""
        return np.concatenate([self._parts.join(of_stage, 1) for of_stage in stages])

    def _outputs(self, found: list[list[Outputs]], y: np.ndarray) -> Outputs:
        stages = self._of_stages(found)
        states = ([[getattr(outputs, name) for outputs in of_stage] for of_stage in stages] for name in ("h", "c"))
        return Outputs(y, *map(self._joined, states))

    def _backward(self, dy, dh, dc, delta_threshold):
        raise DeviceError("in a pipeline forward and backward pass overlap: call forward_backward()")

    def _dx(self):
        return self._parts.join(self._of_stages(self._all("found", "dx"))[0], 1)

    def _initial_state_gradients(self):
        stages = self._of_stages(self._all("found", "states"))
        return tuple(self._joined([[states[n] for states in of_stage] for of_stage in stages]) for n in range(2))

    def _norm_terms(self):
        return tuple(list(chain.from_iterable(terms)) for terms in zip(*self._all("norm_terms"), strict=True))

    def _gradients(self):
        return list(chain.from_iterable(self._all("gradients")))

    def _usage(self):
        return usage_of_batch(self.shape, self._parts, self._of_parts("usage"))

    def _shared_scalars(self):
        return sum(chain.from_iterable(self._all("found", "shared_scalars")))

    def _factors(self):
        if not self._measured:
            raise DeviceError("a pipeline must know before a pass that contributions() follows: measured must be True")
        return join_factors(self._parts, self._of_parts("factors"))

    def _memory(self):
        stages = self._all("memory")[: self._grid.depth]
        return {"stages": stages} if any(stages) else {}


class PipelineDevice(RanksDevice):
    """Devices of several ranks, each with some of the layers; else a :class:`RanksDevice`.

    `depth` are the stages of a pipeline, above 1. With more ranks than that there are several pipelines, which share
    the batch. ``ValueError`` if the ranks cannot be divided into such pipelines.
    """

    def __init__(
        self, team: Team, open_device: Callable[..., Device], name: str, preset: str, own_options: dict, *,
        depth: int, **options,
    ):  # fmt: skip
        self._depth = check_size("pipeline", depth)
        if team.size % depth:
            raise ValueError(f"pipeline must divide the number of ranks, {team.size}, got {depth}")
        super().__init__(team, open_device, name, preset, own_options, **options)

    def _create(self, shape: TrainingShape) -> PipelineSession:
        shape.network.require_lstm("several processes")
        grid, number = self._grid(shape), self._team.new_number()
        session = PipelineSession(shape, grid, self._team, number)
        self._team.all(Call("create_stage", (self._number, number, shape, grid)))
        return session

    def _grid(self, shape: TrainingShape) -> Grid:
        costs = layer_cycles(named_preset(self.preset), shape.network, -(-shape.batch // shape.execution.slices))
        return grid_of(self._team.size, self._depth, shape.execution.slices, costs)

    @exclusive
    def best_slices(self, shape):
        """Tell how many slices leave little to wait for: each micro-batch has as many as the device uses best.

        Pipelines in a number that is no power of two can have one slice each.
        """
        pipelines = self._team.size // self._depth
        if pipelines & (pipelines - 1):
            return pipelines
        parts = pipelines * best_micro_batches(self._depth, max(1, shape.batch // pipelines))
        of_part = shape_of_part(shape.with_execution(slices=parts), Parts(shape.batch, parts, parts))
        return parts * self._own.best_slices(of_part)

    @exclusive
    def best_shared_tokens(self, shape, batches):
        """Tell how many tokens the first stage is best made to share, by what each micro-batch has of the batches."""
        grid = self._grid(shape)
        parts = Parts(shape.batch, shape.execution.slices, grid.parts)
        of_parts = [self._tokens(parts, part, tokens) for part in range(parts.count) for tokens in batches]
        of_stage = shape_of_stage(shape, grid.role(0), self._own.memory_bytes).with_execution(shared_tokens=None)
        return self._own.best_shared_tokens(of_stage, of_parts)
