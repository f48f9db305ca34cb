"""Opens the devices that a command names."""

import sys

from etalstm.architecture import ARCHITECTURES
from etalstm.device import Device, open_device
from etalstm.device.transports import is_simulation

ARCHITECTURE_HELP = f"How the machine runs: {', '.join(ARCHITECTURES)}"


def open_named(name: str, preset: str, **simulation) -> Device:
    """Open a device; options of a simulation are only for one, and a build of it is announced on standard error.

    Raises
    ------
    ValueError
        If there is no such device or preset, or an option is out of range.
    DeviceError
        If the device cannot be built or opened on this machine.
    """
    if not is_simulation(name):
        return open_device(name, preset)
    return open_device(name, preset, log=lambda text: print(text, file=sys.stderr, flush=True), **simulation)
