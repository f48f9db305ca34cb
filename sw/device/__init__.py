"""Devices that train: golden, simulated, and (with a transport) a board."""

from etalstm.device.api import Device, InputGradients, Outputs, Session, TrainingShape
from etalstm.device.golden import GoldenDevice
from etalstm.device.transports import open_simulation

__all__ = ["DEVICES", "Device", "InputGradients", "Outputs", "Session", "TrainingShape", "open_device"]

DEVICES = {"golden": GoldenDevice, "sim": open_simulation}


def open_device(name: str, preset: str = "sim", **options) -> Device:
    """Open a device by name.

    Parameters
    ----------
    name : str
        A key of ``DEVICES``.
    preset : str
        Configuration of the accelerator; the golden device computes the same bits for all of them.
    options
        What else the device takes.

    Raises
    ------
    ValueError
        If there is no such device; the message lists those there are.
    DeviceError
        If the device cannot be built or opened on this machine.
    """
    if name not in DEVICES:
        raise ValueError(f"unknown device {name!r}; there are: {', '.join(sorted(DEVICES))}")
    return DEVICES[name](preset, **options)
