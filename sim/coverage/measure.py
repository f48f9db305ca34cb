"""Runs everything that coverage is measured with, and gives the counts."""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from etalstm.architecture import ARCHITECTURES
from etalstm.hw.config import PRESETS
from etalstm.sim.coverage.bins import STALLS, Bin
from etalstm.sim.coverage.handmade import Program
from etalstm.sim.coverage.runs import Machine, trainings
from etalstm.sim.coverage.toggles import read_toggles
from etalstm.sim.library import build_library, design

PRESET = "test"
"""The configuration whose toggles are counted, and whose settings vary."""
SETTINGS = (("swing", 1), ("dynamic", 1), ("static", 1), ("swing", 2))
"""Architectures, and groups of channels, of that preset's runs; the other presets have the first of them only."""


@dataclass(frozen=True)
class Coverage:
    """What has been reached.

    Members
    -------
    hits : Counter of Bin
        Instructions of programs by their situation; turns of loops are not counted.
    toggles : dict
        By module and bit of preset :data:`PRESET`, how often it rose and fell.
    programs : int
        That `hits` are of.
    cycles : int
        Of all machines, with those of programs that were not counted.
    """

    hits: Counter[Bin]
    toggles: dict[str, dict[str, tuple[int, int]]]
    programs: int
    cycles: int


def measure(
    seed: int = 0, presets: tuple[str, ...] = (PRESET, "sim", "slice"), log: Callable[[str], None] = lambda _: None
) -> Coverage:
    """Run the handmade programs and the training runs in every situation.

    Parameters
    ----------
    seed : int
        Of data and stalls.
    presets : tuple of str
        Machines; fewer leave holes.
    log : function
        Told what is run.

    Raises
    ------
    DeviceError
        If a program ends otherwise than it must, training differs from golden, or a simulator cannot be built.
    """
    hits, files, programs, cycles = Counter(), [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for preset in presets:
            library = build_library(design(PRESETS[preset], apart=False), log=log, coverage=True)
            for stall in STALLS:
                log(f"preset {preset}, memory {stall}")
                machine = Machine(preset, library, stall, hits, seed)
                try:
                    _run(machine, preset)
                    if preset == PRESET and stall == STALLS[0]:
                        _run_extremes(machine)
                    if preset == PRESET:
                        files.append(Path(folder) / stall)
                        machine.transport.simulation.write_coverage(files[-1])
                    programs += machine.transport.programs
                    cycles += machine.transport.simulation.cycle
                finally:
                    machine.close()
        return Coverage(hits, read_toggles(files), programs, cycles)


def _run_extremes(machine: Machine) -> None:
    for name, groups in SETTINGS[::3]:
        machine.run_extremes(Program(PRESETS[PRESET], groups), ARCHITECTURES[name], groups)


def _run(machine: Machine, preset: str) -> None:
    """Run everything on a machine."""
    settings = SETTINGS if preset == PRESET else SETTINGS[:1]
    for name, groups in settings:
        program = Program(PRESETS[preset], groups)
        for case in program.cases():
            machine.run_case(case, ARCHITECTURES[name], groups)
    for name in dict.fromkeys(name for name, _ in settings):
        for training in trainings():
            if ARCHITECTURES[name].skips or not training.skips_zeros:
                machine.train(training, ARCHITECTURES[name])
