"""A rank's session of a stage: some layers, through which the micro-batches of a pipeline go one after the other."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from etalstm.device import Outputs, Session, TrainingShape
from etalstm.device.machine.parts import shape_of_part
from etalstm.device.ranks.exchange import Exchange, digest
from etalstm.device.results import add_counts, clear_padding
from etalstm.golden.fast.sums import add_arrays
from etalstm.host.mpi import Messages
from etalstm.network.exponents import Peaks
from etalstm.network.pipeline_grid import FORWARD, Role
from etalstm.network.shape import LayerGradients, LayerParameters, canonical_rows
from etalstm.network.shared_tokens import SharedTokens
from etalstm.network.slices import Parts, additions
from etalstm.network.update_rule import UpdateRule


def shape_of_stage(shape: TrainingShape, role: Role, memory_bytes: int | None) -> TrainingShape:
    """Give the shape of a session that works on one micro-batch at a stage.

    `shape` is of all layers and the whole batch. The rank's device has `memory_bytes`, if any: its sessions have equal
    shares of that, or of the shape's budget.
    """
    one = shape_of_part(shape, Parts(shape.batch, shape.execution.slices, role.grid.parts))
    layers, budget = role.layers, shape.memory_budget
    if role.most_kept > 1:
        budget = (budget or memory_bytes or 0) // role.most_kept or None
    network, execution = shape.network.of_layers(layers), one.execution.of_layers(layers)
    exact = execution.arithmetic.exact
    return replace(one, network=network, execution=execution, memory_budget=budget, gradient_sums=exact)


class Piece(NamedTuple):
    """What a stage is given of a micro-batch of b sequences, for its layers.

    Members
    -------
    x : array, float32, (T, b, I), for the first stage only; others have the y of the stage below
    lengths : array, int64, (b,)
    h0, c0 : arrays, float32, (L, b, H)
    shared : SharedTokens or None
    """

    x: np.ndarray | None
    lengths: np.ndarray
    h0: np.ndarray
    c0: np.ndarray
    shared: SharedTokens | None


class StageSession:
    """As many sessions of the stage's layers as micro-batches are stored there at once; all have the same weights.

    Where a device or the loss fails, nothing is left out: once a step of a pass has failed, None is posted in the place
    of arrays. So no rank waits in vain.

    The arguments of the sessions, of :func:`shape_of_stage`, have been checked, so their hooks are called. `exchange`
    is between the ranks that have this stage, `thread` adds gradients beside the work of the devices, and `layers` and
    `losses` are those of :class:`etalstm.host.mpi.world.World`.
    """

    def __init__(
        self, sessions: Sequence[Session], role: Role, exchange: Exchange, thread: ThreadPoolExecutor,
        layers: Messages, losses: Messages,
    ):  # fmt: skip
        self._sessions, self._role, self._exchange = sessions, role, exchange
        self._thread, self._layers, self._losses = thread, layers, losses
        self._pieces: list[Piece] = []
        self._counts: list[dict] = []  # of passes whose session has gone on to another micro-batch

    def on_each(self, name: str, *arguments: Any) -> None:
        """Call a method, or a hook, of every session."""
        for session in self._sessions:
            getattr(session, name)(*arguments)

    @property
    def _exact(self) -> bool:
        return self._sessions[0].shape.execution.arithmetic.exact

    def forward(self, skipped: np.ndarray, exponents: tuple, pieces: list[Piece]) -> list[Outputs]:
        """Run the forward pass of all micro-batches; only the last stage gives their y.

        `exponents` are those of integers, of δ and of operands.
        """
        self._begin(skipped, exponents, pieces)
        return self._end([self._forward_step(number) for number in range(len(pieces))])

    def forward_backward(
        self, skipped: np.ndarray, exponents: tuple, pieces: list[Piece], delta_threshold: float, measured: bool
    ) -> list[Outputs]:
        """Run both passes of all micro-batches, and have the gradients of all pipelines added; gives no y.

        With integers nothing is added before :meth:`add_sums`.
        """
        self._begin(skipped, exponents, pieces)
        self._delta_threshold, self._measured = delta_threshold, measured
        if self._exact:
            return self._end(self._both_passes())
        self._exchange.begin()
        outputs: list[Outputs | None] = []
        try:
            outputs = self._both_passes()
            for added in self._added:
                added.result()
            if not self._broken:
                for layer, total in reversed(list(enumerate(self._totals[0]))):
                    self._exchange.give(layer, total)
        finally:
            self._exchange.give_rest()
        return self._end(outputs)

    def _both_passes(self) -> list[Outputs | None]:
        """Run both passes of all micro-batches, in the order of the stage's role."""
        outputs: list[Outputs | None] = []
        for way, number in self._role.order():
            if way == FORWARD:
                outputs.append(self._forward_step(number, train=True))
            else:
                self._backward_step(number)
        return outputs

    def _begin(self, skipped: np.ndarray, exponents: tuple, pieces: list[Piece]) -> None:
        self._skipped, self._pieces = skipped, pieces
        self.on_each("_set_exponents", *exponents)
        self._sums: list[np.ndarray] = []  # with integers, of the micro-batches so far
        self._peaks: list[Peaks] = []
        self._error: Exception | None = None
        self._broken = False  # here or on another rank
        self._found: list[dict[str, Any]] = [{} for _ in pieces]  # by micro-batch: of its backward pass
        self._totals: list[list[LayerGradients]] = []
        self._added: list[Future] = []
        self._counts = []

    def _end(self, outputs: list[Outputs | None]) -> list[Outputs]:
        self._layers.finish()
        if self._role.last:
            self._losses.finish()
        if self._error:
            raise self._error
        return [each for each in outputs if each is not None]  # None only if another rank has failed, which says so

    def _attempt(self, work: Callable, number: int, array: np.ndarray | None) -> Any:
        """Do a step of a pass with an array; give None if there is none, or once a step has failed."""
        self._broken |= array is None
        if self._broken:
            return None
        try:
            return work(number, array)
        except Exception as error:  # rank 0 raises it when all ranks have come to an end
            self._error, self._broken = error, True
            return None

    def _forward_step(self, number: int, train: bool = False) -> Outputs | None:
        role = self._role
        x = self._pieces[number].x if role.first else self._layers.receive(role.below)
        outputs = self._attempt(self._forward, number, x)
        if role.last and not train:
            return outputs
        y = outputs and outputs.y
        if role.last:
            self._losses.post((role.parts[number], y), 0)
        else:
            self._layers.post(y, role.above)
        return outputs and replace(outputs, y=None)

    def _forward(self, number: int, x: np.ndarray) -> Outputs:
        session, piece = self._session_of(number), self._pieces[number]
        if number >= len(self._sessions):
            self._counts.append(session._counters())
        session._skipped, session._shared = self._skipped, piece.shared
        outputs = session._forward(x, piece.lengths, piece.h0, piece.c0)
        clear_padding(outputs.y, piece.lengths)
        return outputs

    def _backward_step(self, number: int) -> None:
        role = self._role
        dy = self._losses.receive(0) if role.last else self._layers.receive(role.above)
        dx = self._attempt(self._backward, number, dy)
        if role.first:
            self._found[number]["dx"] = dx
        else:
            self._layers.post(dx, role.below)

    def _backward(self, number: int, dy: np.ndarray) -> np.ndarray:
        session, piece = self._session_of(number), self._pieces[number]
        clear_padding(dy, piece.lengths)
        session._backward(dy, np.zeros_like(piece.h0), np.zeros_like(piece.c0), self._delta_threshold)
        if self._exact:
            of_piece = session._gradient_sums()
            self._sums = [a + b for a, b in zip(self._sums, of_piece, strict=True)] if self._sums else of_piece
            self._peaks.append(session._delta_peaks())
        else:
            self._added.append(self._thread.submit(self._add, number, session._gradients()))
        self._found[number] = self._read(session, piece)
        return session._dx()

    def _add(self, number: int, gradients: list[LayerGradients]) -> None:
        """Add a micro-batch's gradients to those before it, in the order of the tree of slices."""
        self._totals.append(gradients)
        for _ in range(additions(len(self._pieces))[number]):
            right, left = self._totals.pop(), self._totals.pop()
            self._totals.append([_sum(*layers) for layers in zip(left, right, strict=True)])

    def _read(self, session: Session, piece: Piece) -> dict[str, Any]:
        found: dict[str, Any] = {"states": session._initial_state_gradients(), "usage": session._usage()}
        found |= {"shared_scalars": session._shared_scalars()} if piece.shared else {}
        return found | ({"factors": session._factors()} if self._measured else {})

    def _session_of(self, number: int) -> Session:
        return self._sessions[number % len(self._sessions)]

    def found(self, name: str) -> list:
        """Give what was found in the backward passes, by micro-batch; [] if there is no such thing at this stage."""
        return [of_piece[name] for of_piece in self._found if name in of_piece]

    def peaks(self) -> Peaks:
        """Give, with integers, what the backward passes of all micro-batches have quantised."""
        return Peaks.together(self._peaks)

    def add_sums(self) -> None:
        """Add, with integers, the sums of all pipelines, in any order: the backward pass stands on all of them."""
        self.on_each("_take_gradient_sums", list(map(self._exchange.add_integers, self._sums)))

    def update(self, rule: UpdateRule) -> None:
        """Change weights and velocities by the sum of all gradients."""
        if not self._exact:
            self.on_each("_take_gradients", [total.gradients for total in self._exchange.totals()])
        self.on_each("_update", rule)

    def gradients(self) -> list[LayerGradients]:
        """Give the sum of all gradients; in the first pipeline only."""
        if self._role.pipeline:
            return []
        return self._sessions[0]._gradients() if self._exact else [each.gradients for each in self._exchange.totals()]

    def norm_terms(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Give what the norm is made of; in the first pipeline only."""
        if self._exact and not self._role.pipeline:
            return self._sessions[0]._norm_terms()
        totals = [] if self._role.pipeline else self._exchange.totals()
        return [total.column_norms for total in totals], [canonical_rows(total.gradients.bias) for total in totals]

    def read(self, name: str) -> list[LayerParameters]:
        """Read ``parameters`` or ``velocities``; in the first pipeline only."""
        return [] if self._role.pipeline else getattr(self._sessions[0], f"_{name}")()

    def digests(self, name: str) -> list[str]:
        """Give digests of the weights or the velocities in each session: they must be equal."""
        return [digest(getattr(session, f"_{name}")()) for session in self._sessions]

    def counters(self) -> dict:
        """Add up the counters of all micro-batches and updates."""
        used = self._sessions[: max(1, len(self._pieces))]
        counts = [*self._counts, *(session._counters() for session in used)]
        passes: Counter[str] = Counter()
        for of_session in counts:
            passes.update(of_session.get("passes", {}))
        whole = add_counts({name: count for name, count in each.items() if name != "passes"} for each in counts)
        return {**whole, "passes": dict(passes)} if passes else whole

    def memory(self) -> dict:
        """Describe the memory that each session takes; {} where there is no such thing."""
        sessions = [session._memory() for session in self._sessions]
        return {"micro_batches": sessions} if any(sessions) else {}


def _sum(left: LayerGradients, right: LayerGradients) -> LayerGradients:
    return LayerGradients(add_arrays(left.weights, right.weights), add_arrays(left.bias, right.bias))
