"""Runs for coverage: the handmade programs, and training of small networks, which is compared with golden."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.device.comparison import RandomRun, compare
from etalstm.device.machine.accelerator import Accelerator, LoadedProgram
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import DeviceError
from etalstm.network.architecture import Architecture
from etalstm.network.arithmetic import INT8
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import BF16, Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm_hw.config import PRESETS, Config
from etalstm_hw.contract import CONTROL_START, PAGE_BYTES, REGISTER_SPACE_BYTES, Register, Status, kept_words
from etalstm_hw.contract.image import INSTRUCTION_BYTES, image_of
from etalstm_sim.compiled.library import Library
from etalstm_sim.simulation import Stop
from etalstm_sim.trials.coverage.bins import STALLS, Bin
from etalstm_sim.trials.coverage.cases import Case, extremes, transfers
from etalstm_sim.trials.coverage.handmade import PAGES, Program
from etalstm_sim.trials.coverage.recorder import RecordingTransport

STALL = dict(zip(STALLS, ({}, {"stall": 0.5}, {"stall": 0.5, "reorder": True}), strict=True))
LATENCY_CYCLES = 8
WATCHDOG_CYCLES = 2_000
MOST_CYCLES = 30_000  # until a case is aborted; the program takes fewer
EXTREME_CYCLES = 4_000
FAR_WINDOWS = (0x0_AAAA_A000, 0x1_5555_5000)  # beyond the memory
PATTERNS = (0xFFFFF000, 0xAAAAA000, 0x55555000, 0x00000FFF)  # addresses are multiples of 4,096
BASE = 1 << 16  # of the first window
ZEROS = 0.5  # share of the words in the windows
NO_INTEGER = 0x80  # the byte -128, which neither a weight nor a digit is
SIZES = NetworkShape(5, 9, 2)
LARGE = NetworkShape(20, 40, 1)
BATCH, STEPS = 4, 3


@dataclass(frozen=True)
class Training:
    """A training run.

    Members
    -------
    name : str
    shape : TrainingShape
    run : RandomRun
    offloaded : bool
        The host runs the forward pass.
    skips_zeros : bool
        Only for machines that skip zeros.
    """

    name: str
    shape: TrainingShape
    run: RandomRun
    offloaded: bool = False
    skips_zeros: bool = False


def trainings(config: Config) -> tuple[Training, ...]:
    """Give training runs that use every feature of a machine's programs."""
    return _trainings_of_integers() if config.integers else _trainings_of_floats()


def _trainings_of_integers() -> tuple[Training, ...]:
    usual, int8 = (SIZES, BATCH, STEPS), partial(Execution.read, arithmetic=INT8.name)
    ms1, bf16 = int8(storage="ms1", theta=0.05), int8(storage="ms1-bf16", theta=0.05)
    return (
        Training("lengths", TrainingShape(*usual, int8(), masked=True), RandomRun(2, "per-step", 1)),
        Training("ms1, skipped steps, pruned deltas", TrainingShape(*usual, ms1), RandomRun(1, "last", 2, 0.4, 0.1)),
        Training("slices, one digit", TrainingShape(*usual, int8(slices=2, delta_bits=8)), RandomRun(1, "last", 3)),
        Training("larger", TrainingShape(LARGE, 8, 5, bf16), RandomRun(1, "per-step", 4)),
    )


def _trainings_of_floats() -> tuple[Training, ...]:
    shape, ms1, bf16 = TrainingShape(SIZES, BATCH, STEPS), Storage("ms1", 0.05), Storage("ms1-bf16", 0.05)
    masked = replace(shape, masked=True)
    run = RandomRun(2, "per-step", 1)
    return (
        Training("dense, lengths", masked, run),
        Training(
            "ms1, skipped steps, pruned deltas", masked.with_execution(storage=ms1), RandomRun(1, "last", 2, 0.4, 0.1)
        ),
        Training("ms1-bf16, bf16 weights", masked.with_execution(storage=bf16, weight_format=BF16), run),
        Training("delta inputs", shape.with_execution(storage=ms1, delta_inputs=DeltaInputs.read("0.3", None)), run),
        Training("slices", shape.with_execution(storage=ms1, slices=4), RandomRun(1, "per-step", 3)),
        Training("offloaded", shape.with_execution(storage=ms1), RandomRun(1, "per-step", 4), offloaded=True),
        Training("shared tokens", shape.with_execution(shared_tokens=4), RandomRun(1, "per-step", 5), skips_zeros=True),
        Training(
            "larger", TrainingShape(LARGE, 8, 5, Execution(storage=ms1), masked=True), RandomRun(1, "per-step", 7)
        ),
        Training("layers apart", replace(shape, layers_apart=True), RandomRun(1, "last", 6)),
    )


class Machine:
    """A recording machine that runs programs and training.

    Parameters
    ----------
    preset : str
    library : Library
        Built for coverage.
    stall : str
        One of :data:`etalstm_sim.trials.coverage.bins.STALLS`.
    hits : Counter of Bin
        The counts are added here.
    seed : int
        Of data and stalls.
    """

    def __init__(self, preset: str, library: Library, stall: str, hits: Counter[Bin], seed: int):
        if stall not in STALL:
            raise ValueError(f"stall must be one of {', '.join(STALLS)}, got {stall!r}")
        self._config, self._preset, self._seed = PRESETS[preset], preset, seed
        self.transport = RecordingTransport(preset, library, hits, latency=LATENCY_CYCLES, seed=seed, **STALL[stall])
        self._accelerator = Accelerator(self.transport, self._config)
        self._accelerator.watchdog_cycles = WATCHDOG_CYCLES

    def close(self) -> None:
        """Close the machine."""
        self.transport.close()

    def run_case(self, case: Case, architecture: Architecture, groups: int) -> Status:
        """Run a handmade program; one that takes too long is aborted.

        Raises
        ------
        DeviceError
            If it does not end with the status of the case.
        """
        self._prepare(case.words, architecture, groups)
        if case.fault is not None:
            begin = 0 if case.page is None else BASE + case.page * PAGE_BYTES
            self.transport.simulation.inject(begin, begin + PAGE_BYTES, case.fault)
        if case.damaged is not None:
            self.transport.simulation.memory[(case.damaged + 1) * INSTRUCTION_BYTES - 1] ^= 1 << 7  # of the check
        self._accelerator.start(LoadedProgram(0, len(case.words)))
        status = self._wait(MOST_CYCLES)
        self.transport.simulation.clear_faults()
        if status != case.status:
            raise DeviceError(f"{case.name}: the program ended with {status.name}, expected {case.status.name}")
        return status

    def run_extremes(self, program: Program, architecture: Architecture, groups: int) -> None:
        """Set all bits of each field, and patterns in each register; put windows beyond the memory.

        These programs end with any status, and are not counted.
        """
        self.transport.recording = False
        for words in extremes(program):
            self._prepare(words, architecture, groups)
            self._accelerator.start(LoadedProgram(0, len(words)))
            self._wait(EXTREME_CYCLES)
        for register, value in product(kept_words(), PATTERNS):
            self._prepare(program.words(), architecture, groups)
            self._start_with({register: value}, program.words())
        for base, words in product(FAR_WINDOWS, transfers(program)):
            self._prepare(words, architecture, groups)
            self._start_with({Register.WINDOW_LOW: base % (1 << 32), Register.WINDOW_HIGH: base >> 32}, words)
        for register in range(0, REGISTER_SPACE_BYTES, 4):
            self.transport.read_register(register)
            self.transport.write_register(register, self.transport.read_register(register))
        self.transport.recording = True

    def _start_with(self, registers: dict[int, int], words: list[int]) -> None:
        """Run a program with these values in registers, after a run with the usual ones was aborted."""
        self._accelerator.start(LoadedProgram(0, len(words)))
        self._accelerator.abort()
        for register, value in registers.items():
            self.transport.write_register(register, value)
        for _ in range(2):  # the second one is refused while the first one runs
            self.transport.write_register(Register.CONTROL, CONTROL_START)
        self._wait(EXTREME_CYCLES)

    def _prepare(self, words: list[int], architecture: Architecture, groups: int) -> None:
        """Fill the memory, and choose the settings."""
        self.fill_windows()
        self._accelerator.load(image_of(words), 0)
        self._accelerator.set_windows(BASE, PAGES * PAGE_BYTES)
        self._accelerator.set_architecture(architecture)
        self._accelerator.set_groups(groups)

    def _wait(self, cycles: int) -> Status:
        """Wait for a program's end, or abort it after so many cycles."""
        if self.transport.simulation.run(cycles) is not Stop.INTERRUPT:
            self._accelerator.abort()
        status = Status(self.transport.read_register(Register.STATUS))
        if status == Status.STUCK:
            self.transport.reset()
        return status

    def fill_windows(self) -> None:
        """Put random numbers into all windows, a half of them 0: without zeros no row of a map is left out."""
        size = self._config.channels * PAGES * PAGE_BYTES
        draw = np.random.default_rng(self._seed)
        words = draw.standard_normal(size // 4, np.float32)
        words[draw.random(words.size) < ZEROS] = 0
        filled = words.view(np.uint8)
        if self._config.integers:
            filled[filled == NO_INTEGER] += 1
        self.transport.simulation.memory[BASE : BASE + size] = filled

    def train(self, training: Training, architecture: Architecture) -> None:
        """Train, and compare every word with golden.

        Raises
        ------
        DeviceError
            If a word differs.
        """
        shape = training.shape.with_execution(architecture=architecture)
        machine = HardwareDevice("sim", self._preset, self._accelerator)
        device = OffloadDevice(machine) if training.offloaded else machine
        with open_device("golden") as golden:
            sessions = {"golden": golden.create(shape), "machine": device.create(shape)}
            found = compare(sessions, shape, training.run)
        if found.mismatched_words:
            raise DeviceError(f"training {training.name!r} differs from golden: {found.first_mismatch}")
