"""The devices of all ranks, as one device."""

from collections.abc import Callable

import numpy as np

from etalstm.device import Device, Session, TrainingShape
from etalstm.device.access import exclusive
from etalstm.device.machine.parts import shape_of_part
from etalstm.device.ranks.session import RanksSession
from etalstm.device.ranks.team import Team
from etalstm.device.ranks.worker import Call
from etalstm.network.slices import Parts, part_counts


class RanksDevice(Device):
    """As many devices as there are ranks; every rank has one.

    Parameters
    ----------
    team : Team
    open_device : callable
        Gives a device for a name, a preset and options; importable, as other ranks call it too.
    name : str
        Of the device of every rank. ``xdma:RANK`` is the card with the rank's number on its host.
    preset : str
    own_options : dict
        Options of rank 0's device only, such as what announces a build.
    options
        Of every rank's device.

    Raises
    ------
    ValueError, DeviceError
        As `open_device`, with the rank's name; and if ranks have other programs or presets.
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
        """Make a session on every rank, each for a part of the batch.

        Raises
        ------
        ValueError
            If the slices cannot be divided into as many subtrees of one size as there are ranks, or the cell is no
            LSTM.
        """
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
