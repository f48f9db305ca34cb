"""Measures coverage: runs the handmade programs and training in every situation, and counts."""

import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from operator import add
from pathlib import Path

from etalstm.host.computer import count_processors, worker_processes
from etalstm.network.architecture import ARCHITECTURES
from etalstm_hw.config import PRESETS, Config
from etalstm_sim.compiled.library import Library, build_library, design
from etalstm_sim.trials.coverage.bins import FLOATS, KIND_OF, STALLS, Bin, Kind
from etalstm_sim.trials.coverage.cases import cases
from etalstm_sim.trials.coverage.handmade import Program
from etalstm_sim.trials.coverage.handmade_integers import program_of
from etalstm_sim.trials.coverage.runs import Machine, trainings
from etalstm_sim.trials.coverage.toggles import Toggles, add_toggles, read_toggles


@dataclass(frozen=True)
class Coverage:
    """Coverage that was reached; coverages add.

    Members
    -------
    hits : Counter of Bin
        Instructions of programs by their situation; turns of loops are not counted.
    toggles : dict
        By module and bit of the kind's preset, how often it rose and fell.
    programs : int
        Programs whose instructions `hits` counts.
    cycles : int
        Of all machines, including programs that `hits` does not count.
    """

    hits: Counter[Bin] = field(default_factory=Counter)
    toggles: Toggles = field(default_factory=dict)
    programs: int = 0
    cycles: int = 0

    def __add__(self, other: "Coverage") -> "Coverage":
        toggles = add_toggles(self.toggles, other.toggles)
        return Coverage(self.hits + other.hits, toggles, self.programs + other.programs, self.cycles + other.cycles)


def measure(kind: Kind = FLOATS, seed: int = 0, log: Callable[[str], None] = lambda _: None) -> Coverage:
    """Run the handmade programs and the training runs in every situation, on all processors.

    Parameters
    ----------
    kind : Kind
        Of the machines.
    seed : int
        Of data and stalls.
    log : function
        Told after every machine how many have run.

    Raises
    ------
    DeviceError
        If a program ends otherwise than it must, training differs from golden, or a simulator cannot be built.
    """
    machines = [(preset, _built(preset, log), stall) for preset, stall in product(kind.presets, STALLS)]
    found = []
    with worker_processes(count_processors()) as pool:
        futures = [pool.submit(_measure_machine, *machine, seed) for machine in machines]
        try:
            for future in as_completed(futures):
                found.append(future.result())
                log(f"{len(found)} of {len(machines)} machines have run")
        finally:
            pool.shutdown(cancel_futures=True)
    return reduce(add, found)


def _built(preset: str, log: Callable[[str], None]) -> Library:
    return build_library(design(PRESETS[preset], apart=False), log=log, coverage=True)


def _measure_machine(preset: str, library: Library, stall: str, seed: int) -> Coverage:
    """Run everything on a machine with a memory."""
    kind, config = KIND_OF[preset], PRESETS[preset]
    first = kind.preset == preset
    hits: Counter[Bin] = Counter()
    toggles: Toggles = {}
    machine = Machine(preset, library, stall, hits, seed)
    try:
        for name, groups in kind.settings if first else kind.settings[:1]:
            _run(machine, program_of(config, groups), name, groups)
        if first:
            if stall == STALLS[0]:
                _run_extremes(machine, config, kind.settings)
            toggles = _toggles(machine)
        return Coverage(hits, toggles, machine.transport.programs, machine.transport.simulation.cycle)
    finally:
        machine.close()


def _run(machine: Machine, program: Program, name: str, groups: int) -> None:
    """Run every case and, as training chooses its groups by itself, every training once."""
    for case in cases(program):
        machine.run_case(case, ARCHITECTURES[name], groups)
    for training in trainings(program.config) if groups == 1 else ():
        if ARCHITECTURES[name].skips or not training.skips_zeros:
            machine.train(training, ARCHITECTURES[name])


def _run_extremes(machine: Machine, config: Config, settings: tuple[tuple[str, int], ...]) -> None:
    for name, groups in dict.fromkeys((settings[0], settings[-1])):
        machine.run_extremes(program_of(config, groups), ARCHITECTURES[name], groups)


def _toggles(machine: Machine) -> Toggles:
    with tempfile.NamedTemporaryFile() as file:
        machine.transport.simulation.write_coverage(Path(file.name))
        return read_toggles(Path(file.name))
