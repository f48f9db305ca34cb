"""Which transports there are, and how a device is opened on one."""

import importlib
import re

from etalstm.device.cards.xdma import XdmaTransport
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.transport import Transport
from etalstm_hw.config import Config
from etalstm_hw.config import preset as named_preset

# Imported when opened: a simulator lies above the devices, and a host of the board does not need one.
_SIMULATIONS = {
    "sim": ("etalstm_sim.transport", "SimTransport"),
    "xdma:sim": ("etalstm_sim.nodes", "SimulatedCard"),
}
_CARD = re.compile(r"xdma:(\d{1,4})")


def is_simulation(name: str) -> bool:
    """Say whether a device of that name is simulated."""
    return name in _SIMULATIONS


def is_hardware(name: str) -> bool:
    """Say whether :func:`open_hardware` takes that name."""
    return is_simulation(name) or _CARD.fullmatch(name) is not None


def open_hardware(name: str, preset: str = "sim", **options) -> HardwareDevice:
    """Open a transport, check the machine behind it and make it a device.

    Parameters
    ----------
    name : str
        "sim", the Verilated machine; "xdma:N", card N; "xdma:sim", the host path of a card over the Verilated machine.
    preset : str
        Configuration that the machine has, or for a simulation gets.
    options
        What the transport takes, see :class:`etalstm_sim.transport.SimTransport`,
        :class:`etalstm.device.cards.xdma.XdmaTransport` and :class:`etalstm_sim.nodes.SimulatedCard`.

    Raises
    ------
    ValueError
        If there is no such preset, or an option is out of range.
    DeviceError
        If the machine cannot be built, is not there, or is another one.
    """
    config = named_preset(preset)
    transport = _open_transport(name, config, options)
    try:
        return HardwareDevice(name, preset, Accelerator(transport, config))
    except BaseException:
        transport.close()
        raise


def _open_transport(name: str, config: Config, options: dict) -> Transport:
    if card := _CARD.fullmatch(name):
        return XdmaTransport(config, int(card[1]), **options)
    module, transport_class = _SIMULATIONS[name]
    return getattr(importlib.import_module(module), transport_class)(config, **options)
