"""Devices that train: golden, simulated, and a card.

``api`` is what a caller has: sessions of a :class:`~etalstm.device.device.Device`; begin there. ``hooks`` is what a new
device implements. ``machine`` drives an accelerator, ``cards`` reaches one over PCIe; ``transport`` joins the two.
``ranks`` makes one device of many; ``offload`` and ``paranoid`` wrap a device; ``selftest`` finds faults.
"""

from typing import Any

from etalstm.device.api import Session
from etalstm.device.device import Device
from etalstm.device.golden import GOLDEN, GoldenDevice
from etalstm.device.machine.hardware import is_hardware, open_hardware
from etalstm.device.offload import OffloadDevice
from etalstm.device.paranoid import ParanoidDevice
from etalstm.device.results import InputGradients, Outputs
from etalstm.device.shape import TrainingShape

__all__ = [
    "DEVICES",
    "GOLDEN",
    "Device",
    "InputGradients",
    "OffloadDevice",
    "Outputs",
    "ParanoidDevice",
    "Session",
    "TrainingShape",
    "open_device",
]

DEVICES = (GOLDEN, "sim", "xdma:N", "xdma:sim")


def open_device(name: str, preset: str = "sim", **options: Any) -> Device:
    """Open a device by name: one of ``DEVICES``, where N is a card's number, as in ``xdma:0``.

    `preset` is the configuration of the accelerator; the golden device computes the same bits for all of them. See
    :func:`etalstm.device.machine.hardware.open_hardware` for the options of each device.

    ``ValueError`` if there is no such device, the message lists those there are; or if an option is none of the
    device's, of the wrong type, or out of range. :class:`DeviceError` if the device cannot be built or opened here.
    """
    if name == GOLDEN:
        if options:
            raise ValueError(f"device golden takes no options, got {', '.join(options)}")
        return GoldenDevice(preset)
    if not isinstance(name, str) or not is_hardware(name):
        raise ValueError(f"unknown device {name!r}; there are: {', '.join(DEVICES)}")
    return open_hardware(name, preset, **options)
