"""The devices of all ranks, as one device: rank 0 has the whole batch, each rank works on a part of it."""

import weakref
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import numpy as np

from etalstm.device import Device, Outputs, Session, TrainingShape
from etalstm.device.access import exclusive
from etalstm.device.machine.parts import join_factors, shape_of_part, take_part, usage_of_batch
from etalstm.device.ranks.team import Call, Team
from etalstm.device.results import counts_side_by_side
from etalstm.errors import DeviceError
from etalstm.network.exponents import Peaks
from etalstm.network.shape import LayerParameters, canonical_rows
from etalstm.network.slices import Parts, part_counts


class TeamSession(Session):
    """Has every rank call its own session of the same `number`; `shape` is of all layers and the whole batch."""

    reduces = True

    def __init__(self, shape: TrainingShape, parts: Parts, team: Team, number: int):
        super().__init__(shape)
        self._parts, self._team, self.number = parts, team, number
        weakref.finalize(self, team.forget, number)

    def _all(self, name: str, *arguments) -> list:
        return self._team.all(Call(name, arguments, self.number))

    @abstractmethod
    def _equal(self, name: str) -> list[LayerParameters]:
        """Read what sessions must have alike; :class:`DeviceError` names a rank that has other bits."""

    def _parameters(self):
        return self._equal("parameters")

    def _velocities(self):
        return self._equal("velocities")

    def _update(self, rule):
        self._all("update", rule)

    def _counters(self):
        return counts_side_by_side(self._all("counters"))


class RanksSession(TeamSession):
    """Divides each batch among the ranks, with the bits of one machine that has all of it.

    Each rank works on a part, a subtree of the slices, and adds its gradients on its device. Then those of all ranks
    are added in the tree's order. All ranks have the same weights, and apply the same update to them. With integers
    rank 0 chooses the exponents for all.
    """

    exact = True

    def _own(self, name: str):
        return self._team.own.do(Call(name, session=self.number))

    def _load(self, parameters, velocities):
        self._all("load", parameters, velocities)

    def _store_as(self, shape):
        self._all("store_as", shape.execution.storage)

    def _send_as(self, shape):
        self._all("send_as", shape.execution.delta_inputs)

    def _equal(self, name: str) -> list[LayerParameters]:
        digests = self._all("digest", name)
        for rank, digest in enumerate(digests):
            if digest != digests[0]:
                raise DeviceError(f"the {name} of rank {rank} are not those of rank 0: one of the two has miscomputed")
        return self._own(name)

    def _scrub(self):
        self._all("scrub")

    def _forward(self, x, lengths, h0, c0):
        calls = []
        for part in range(self._parts.count):
            shared = self._shared and self._shared.of_sequences(self._parts.sequences(part))
            arrays = take_part(self._parts, part, (x, 1), (lengths, 0), (h0, 1), (c0, 1))
            calls.append(Call("forward", (self._skipped, shared, self._exponents.now, *arrays), self.number))
        outputs = self._team.each(calls)
        return Outputs(*(self._parts.join([getattr(part, name) for part in outputs], 1) for name in ("y", "h", "c")))

    def _backward(self, dy, dh, dc, delta_threshold):
        each = [take_part(self._parts, part, (dy, 1), (dh, 1), (dc, 1)) for part in range(self._parts.count)]
        now = self._exponents.now
        self._team.each([Call("backward", (now, *arrays, delta_threshold), self.number) for arrays in each])
        if not self.shape.execution.arithmetic.exact:
            self._report_gradients()

    def _complete_gradients(self):
        self._all("add_sums")
        super()._complete_gradients()

    def _operand_peaks(self):
        return Peaks.together(self._all("operand_peaks"))

    def _delta_peaks(self):
        return Peaks.together(self._all("delta_peaks"))

    def _dx(self):
        return self._parts.join(self._all("dx"), 1)

    def _initial_state_gradients(self):
        return tuple(map(partial(self._parts.join, axis=1), zip(*self._all("initial_state_gradients"), strict=True)))

    def _gradients(self):
        return [total.gradients for total in self._own("totals")]

    def _norm_terms(self):
        totals = self._own("totals")
        return [total.column_norms for total in totals], [canonical_rows(total.gradients.bias) for total in totals]

    def _usage(self):
        return usage_of_batch(self.shape, self._parts, self._all("usage"))

    def _shared_scalars(self):
        return sum(self._all("shared_scalars"))

    def _factors(self):
        return join_factors(self._parts, self._all("factors"))

    def _memory(self):
        return self._own("memory")


class RanksDevice(Device):
    """As many devices as there are ranks; every rank has one.

    `open_device` gives a device for a name, a preset and options. Other ranks call it too, so it must be importable.
    Its errors name the rank. Name ``xdma:RANK`` is the card with the rank's number on its host. `own_options` are for
    rank 0's device only, such as what announces a build; the others are for every rank's.

    :class:`DeviceError` also if ranks have other programs or presets.
    """

    def __init__(
        self, team: Team, open_device: Callable[..., Device], name: str, preset: str, own_options: dict, **options
    ):
        team.meet(preset)
        self._team, self._number = team, team.new_number()
        opened = self._number, open_device, name, preset
        # Rank 0 alone first: a simulator that must be built is built once.
        team.own.open(*opened, options | own_options)
        super().__init__(name, preset)
        team.others(Call("open", (*opened, options)))
        self._own = team.own.device(self._number)
        self.plans_steps = self._own.plans_steps

    def _create(self, shape: TrainingShape) -> Session:
        """Make a session on every rank, each for a part of the batch: a whole subtree of its slices."""
        shape.network.require_lstm("several processes")
        parts = self._parts(shape)
        number = self._team.new_number()
        session = RanksSession(shape, parts, self._team, number)
        self._team.all(Call("create", (self._number, number, shape_of_part(shape, parts))))
        return session

    def _parts(self, shape: TrainingShape) -> Parts:
        slices = shape.execution.slices
        counts = part_counts(slices)
        if self._team.size not in counts:
            ranks = ", ".join(map(str, counts))
            raise ValueError(
                f"{slices} slices can be divided among {ranks} ranks, so that each has a whole subtree; "
                f"there are {self._team.size} ranks, for which slices could be {self._slices_that_suit(shape.batch)}"
            )
        return Parts(shape.batch, slices, self._team.size)

    def _slices_that_suit(self, batch: int) -> str:
        found = [slices for slices in range(1, batch + 1) if self._team.size in part_counts(slices)]
        return f"{', '.join(map(str, found[:4]))}{', …' if len(found) > 4 else ''}" if found else "no number"

    @exclusive
    def best_slices(self, shape):
        """Tell how many slices all ranks together use best: each as many as its own device."""
        size = self._team.size
        shape = shape.with_execution(slices=size)
        return size * self._own.best_slices(shape_of_part(shape, self._parts(shape)))

    @exclusive
    def best_shared_tokens(self, shape, batches):
        """Tell how many tokens a rank's session is best made to share, by what each rank has of the batches."""
        parts = self._parts(shape)
        of_ranks = [self._tokens(parts, rank, tokens) for rank in range(parts.count) for tokens in batches]
        return self._own.best_shared_tokens(shape_of_part(shape, parts), of_ranks)

    @staticmethod
    def _tokens(parts: Parts, rank: int, tokens: np.ndarray) -> np.ndarray:
        sequences = parts.sequences(rank)
        return np.where(sequences < 0, -1, tokens[:, sequences])

    def _release(self):
        self._team.all(Call("close", (self._number,)))
