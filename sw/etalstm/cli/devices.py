"""Opens the devices that a command names, and completes the waveforms of simulated ones."""

from functools import partial
from pathlib import Path

import etalstm.golden
from etalstm.cli.output import announce_compilation, say
from etalstm.device import DEVICES, GOLDEN, Device, Session, open_device
from etalstm.device.machine.hardware import HardwareDevice, is_hardware, is_simulation, open_hardware
from etalstm.device.machine.session import HardwareSession
from etalstm.device.ranks.device import RanksDevice
from etalstm.device.ranks.pipeline import PipelineDevice
from etalstm.device.ranks.team import LOCAL_RANK, find_team
from etalstm.errors import DeviceError
from etalstm.plan.program.walk import line_of
from etalstm_sim.waveform import name_instructions

DEVICES_HELP = ", ".join(DEVICES)


def open_named(name: str, preset: str, **simulation) -> Device:
    """Open a device. The options `simulation` reach a simulated one only; its build is announced on standard error.

    Raises ``ValueError`` if there is no such device or preset, or an option is out of range; :class:`DeviceError` if
    the device cannot be built or opened on this machine, or mpiexec has started several processes.
    """
    if is_hardware(name):
        return open_machine(preset, name, **simulation)
    _refuse_team()
    if name == GOLDEN:
        announce_compilation(etalstm.golden)
    return open_device(name, preset)


def open_machine(preset: str, name: str = "sim", **simulation) -> HardwareDevice:
    """Open a machine, simulated or real, as :func:`open_named` does."""
    _refuse_team()
    return open_hardware(name, preset, **({"log": say, **simulation} if is_simulation(name) else {}))


def tell_instructions(waveform: Path | None, session: Session | None = None) -> None:
    """Write into a closed ``.vcd``, if there is one, what its instructions say. A machine's session knows tensors."""
    if waveform is None or waveform.suffix != ".vcd":
        return
    text_of = partial(line_of, place_of=session.plan.map.place_of) if isinstance(session, HardwareSession) else line_of
    signals = name_instructions(waveform, text_of)
    say(f"{waveform}: {signals} signals ..._text tell in words what the instructions beside them are")


def _refuse_team() -> None:
    if find_team():
        raise DeviceError("only train works on several processes: start this command without mpiexec")


def open_on_ranks(name: str, preset: str, pipeline: int = 1) -> Device:
    """Open a device as :func:`open_named`; where mpiexec has started several processes, open one on each.

    `name`: as :func:`etalstm.device.open_device` takes it; or ``xdma:RANK``: each process opens a card of its own.
    `pipeline`: processes over which the layers are spread; 1: each has all layers.
    """
    team = find_team()
    if team:
        arguments = team, open_device, name, preset, {"log": say} if is_simulation(name) else {}
        return RanksDevice(*arguments) if pipeline == 1 else PipelineDevice(*arguments, depth=pipeline)
    if pipeline > 1:
        raise ValueError(
            f"pipeline {pipeline} is for as many processes at least: start them with eta-lstm launch, or mpiexec"
        )
    if name.endswith(LOCAL_RANK):
        raise ValueError(f"device {name} is for several processes: start them with eta-lstm launch, or mpiexec")
    return open_named(name, preset)
