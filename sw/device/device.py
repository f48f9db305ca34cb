"""Something that trains, whatever it is made of."""

from abc import ABC, abstractmethod

from etalstm.device.api import Session
from etalstm.device.shape import TrainingShape


class Device(ABC):
    """Something that trains. Usable as a context manager that closes it.

    Members
    -------
    name : str
        What :func:`etalstm.device.open_device` knows it by.
    preset : str
        The configuration it was opened with.
    plans_steps : bool
        Making a session takes time, and a session is for one number of steps.
    """

    name: str
    preset: str
    plans_steps: bool = True

    @abstractmethod
    def create(self, shape: TrainingShape) -> Session:
        """Make a session.

        Raises
        ------
        DeviceError
            If the network does not fit the device; the message says what is needed and what there is.
        """

    def best_slices(self, shape: TrainingShape) -> int:
        """Tell how many slices of the batch the device uses best: 1 where it works on one slice at a time.

        Parameters
        ----------
        shape : TrainingShape
            Of the run; its own number of slices is not looked at.
        """
        return 1

    def close(self) -> None:  # noqa: B027  a device without resources has nothing to release
        """Release the device; its sessions are then unusable. Closing twice does nothing."""

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *_) -> None:
        self.close()
