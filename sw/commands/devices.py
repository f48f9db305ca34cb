"""Opens the devices that a command names."""

import sys

from etalstm.architecture import ARCHITECTURES
from etalstm.device import Device, open_device
from etalstm.device.transports import is_simulation
from etalstm.ranks.device import RanksDevice
from etalstm.ranks.team import find_team
from etalstm.ranks.worker import LOCAL_RANK

ARCHITECTURE_HELP = f"How the machine runs: {', '.join(ARCHITECTURES)}"


def open_named(name: str, preset: str, **simulation) -> Device:
    """Open a device, or where mpiexec has started several processes, one on each.

    Options of a simulation are only for one. A build of it is announced on standard error.

    Parameters
    ----------
    name : str
        As :func:`etalstm.device.open_device` takes it; or ``xdma:RANK``, of several processes each one's own card.
    preset : str
    simulation
        What :class:`etalstm.sim.transport.SimTransport` takes.

    Raises
    ------
    ValueError
        If there is no such device or preset, or an option is out of range.
    DeviceError
        If the device cannot be built or opened on this machine.
    """
    team = find_team()
    if team is None and name.endswith(LOCAL_RANK):
        raise ValueError(f"device {name} is for several processes: start them with eta-lstm launch, or mpiexec")
    if not is_simulation(name):
        return RanksDevice(team, open_device, name, preset, {}) if team else open_device(name, preset)
    announced = {"log": lambda text: print(text, file=sys.stderr, flush=True)}
    if team is None:
        return open_device(name, preset, **announced, **simulation)
    if "trace" in simulation:
        raise ValueError("a waveform is of one machine: --trace must be left out with several processes")
    return RanksDevice(team, open_device, name, preset, announced, **simulation)
