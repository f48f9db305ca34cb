"""Which transports there are, and how a device is opened on one."""

import importlib

from etalstm.device.accelerator import Accelerator
from etalstm.device.hardware import HardwareDevice
from etalstm.hw import config as configurations

# Imported when opened: a simulator lies above the devices, and a host of the board does not need one.
_TRANSPORTS = {"sim": ("etalstm.sim.transport", "SimTransport")}


def open_hardware(name: str, preset: str = "sim", **options) -> HardwareDevice:
    """Open a transport, check the machine behind it and make it a device.

    Parameters
    ----------
    name : str
        "sim".
    preset : str
        Configuration that the machine has, or for a simulation gets.
    options
        What the transport takes; :class:`etalstm.sim.transport.SimTransport` lists those of a simulation.

    Raises
    ------
    ValueError
        If there is no such preset, or an option is out of range.
    DeviceError
        If the machine cannot be built, is not there, or is another one.
    """
    config = configurations.preset(preset)
    module, transport_class = _TRANSPORTS[name]
    transport = getattr(importlib.import_module(module), transport_class)(config, **options)
    try:
        return HardwareDevice(name, preset, Accelerator(transport, config))
    except BaseException:
        transport.close()
        raise


def open_simulation(preset: str = "sim", **options) -> HardwareDevice:
    """Open the Verilated machine; see :func:`open_hardware`."""
    return open_hardware("sim", preset, **options)
