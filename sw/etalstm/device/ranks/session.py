"""A session whose batch several ranks share: rank 0 has the whole batch, each rank works on a part of it."""

import weakref
from functools import partial

from etalstm.device import Outputs, Session, TrainingShape
from etalstm.device.machine.parts import join_factors, usage_of_batch
from etalstm.device.ranks.team import Team
from etalstm.device.ranks.worker import Call
from etalstm.device.results import counts_side_by_side
from etalstm.errors import DeviceError
from etalstm.network.shape import canonical_rows
from etalstm.network.slices import Parts


class TeamSession(Session):
    """Has every rank call its own session of the same number.

    Parameters
    ----------
    shape : TrainingShape
        Of all layers and the whole batch.
    parts : Parts
        Into which the batch is divided.
    team : Team
    number : int
        Of the session, on every rank.

    Members
    -------
    number : int
    """

    reduces = True

    def __init__(self, shape: TrainingShape, parts: Parts, team: Team, number: int):
        super().__init__(shape)
        self._parts, self._team, self.number = parts, team, number
        weakref.finalize(self, team.forget, number)

    def _all(self, name: str, *arguments) -> list:
        """Have every rank call a method of its session with the same arguments."""
        return self._team.all(Call(name, arguments, self.number))

    def _update(self, rule):
        self._all("update", rule)

    def _scrub(self):
        self._all("scrub")

    def _counters(self):
        return counts_side_by_side(self._all("counters"))


class RanksSession(TeamSession):
    """Divides each batch among the ranks, with the bits of one machine that has all of it.

    Each rank works on a part, a subtree of the slices, and adds its gradients on its device. Then those of all ranks
    are added in the tree's order. All ranks have the same weights, and apply the same update to them.
    """

    def _own(self, name: str):
        """Call a method of rank 0's session, for what is equal on all ranks."""
        return self._team.own.do(Call(name, session=self.number))

    def _load(self, parameters, velocities):
        self._all("load", parameters, velocities)

    def _store_as(self, shape):
        self._all("store_as", shape.execution.storage)

    def _send_as(self, shape):
        self._all("send_as", shape.execution.delta_inputs)

    def _parameters(self):
        return self._equal_on_all("parameters")

    def _velocities(self):
        return self._equal_on_all("velocities")

    def _equal_on_all(self, name: str):
        """Read what all ranks must have alike.

        Raises
        ------
        DeviceError
            If a rank has other bits than rank 0; the message names it.
        """
        digests = self._all("digest", name)
        for rank, digest in enumerate(digests):
            if digest != digests[0]:
                raise DeviceError(f"the {name} of rank {rank} are not those of rank 0: one of the two has miscomputed")
        return self._own(name)

    def _forward(self, x, lengths, h0, c0):
        calls = []
        for part in range(self._parts.count):
            shared = self._shared and self._shared.part(self._parts.sequences(part))
            arrays = self._of(part, (x, 1), (lengths, 0), (h0, 1), (c0, 1))
            calls.append(Call("forward", (self._skipped, shared, *arrays), self.number))
        outputs = self._team.each(calls)
        return Outputs(*(self._parts.join([getattr(part, name) for part in outputs], 1) for name in ("y", "h", "c")))

    def _backward(self, dy, dh, dc, delta_threshold):
        each = [self._of(part, (dy, 1), (dh, 1), (dc, 1)) for part in range(self._parts.count)]
        self._team.each([Call("backward", (*arrays, delta_threshold), self.number) for arrays in each])
        self._tell_whole()

    def _of(self, part: int, *arrays) -> list:
        """Give a part of arrays of the whole batch, each with its axis."""
        return [self._parts.take(array, part, axis) for array, axis in arrays]

    def _dx(self):
        return self._parts.join(self._all("dx"), 1)

    def _initial_state_gradients(self):
        return tuple(map(partial(self._parts.join, axis=1), zip(*self._all("states"), strict=True)))

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
        """Gather them from all ranks."""
        return join_factors(self._parts, self._all("factors"))

    def _memory(self):
        return self._own("memory")
