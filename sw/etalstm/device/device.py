"""Something that trains, whatever it is made of."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from etalstm.device.access import Access, exclusive
from etalstm.device.api import Session
from etalstm.device.shape import TrainingShape


class Device(ABC):
    """Something that trains. Usable as a context manager that closes it.

    One thread at a time may be in a call of a device or of one of its sessions; :class:`BusyError` tells any other. To
    train in several threads, open a device in each.

    A device implements the hooks, whose names begin with an underscore, and :meth:`best_slices` if it works on several
    slices at once.

    Members
    -------
    name : str            what :func:`etalstm.device.open_device` knows it by
    preset : str          the configuration it was opened with
    access : Access       who may use it; that of another device that this one stands before, or its own
    plans_steps : bool    making a session takes time, and is done for a number of steps
    """

    plans_steps = True

    def __init__(self, name: str, preset: str, access: Access | None = None):
        self.name, self.preset = name, preset
        self.access = access or Access(f"device {name}")

    @property
    def memory_bytes(self) -> int | None:
        """Bytes of the device's own memory; None if it uses the host's."""
        return None

    @exclusive
    def create(self, shape: TrainingShape) -> Session:
        """Make a session; :class:`DeviceError` says what is needed and what there is if the network does not fit."""
        session = self._create(shape)
        session.access = self.access
        return session

    @exclusive
    def best_slices(self, shape: TrainingShape) -> int:
        """Tell how many slices of a run's batch the device uses best: 1 where it works on one slice at a time.

        The number of slices of `shape` is not looked at.
        """
        return 1

    @exclusive
    def best_shared_tokens(self, shape: TrainingShape, batches: Sequence[np.ndarray]) -> int | None:
        """Tell how many distinct tokens a session of the device is best made to share; None if it best shares none.

        `shape` is of the run, without `shared_tokens`; `batches` are tokens of some of its batches, at least one:
        arrays of integers, (T, B), -1 at padding.
        """
        distinct = [len(np.unique(tokens[tokens >= 0])) for tokens in batches]
        return max(distinct) if sum(distinct) < sum(np.count_nonzero(tokens >= 0) for tokens in batches) else None

    def close(self) -> None:
        """Release the device when no call of it goes on any more; its sessions are then unusable.

        Closing twice does nothing.
        """
        self.access.close(self._release)

    @abstractmethod
    def _create(self, shape: TrainingShape) -> Session:
        """Make a session."""

    def _release(self) -> None:  # noqa: B027  a device without resources has nothing to release
        """Give back what the device has; called once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
