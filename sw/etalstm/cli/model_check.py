"""``eta-lstm model check``: the cycle model beside the Verilog."""

import json
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

import numpy as np
from typer import Option

from etalstm.cli.output import say
from etalstm.device import TrainingShape
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.machine.session import HardwareSession
from etalstm.model.counted import Counted
from etalstm.model.iteration import count_program
from etalstm.model.measured import early_cells
from etalstm.model.operands import Densities
from etalstm.network.cells.hlstm import HLSTM
from etalstm.network.cells.lstm import LSTM
from etalstm.network.execution import BF16, Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm_hw.config import Config, preset
from etalstm_hw.contract import Counter
from etalstm_hw.contract.image import INSTRUCTION_BYTES, words_of
from etalstm_sim.transport import SimTransport


@dataclass(frozen=True)
class Configuration:
    """A machine, and a training iteration on it."""

    name: str
    preset: str  # configuration of the machine
    inputs: int
    hidden: int
    layers: int
    batch: int
    steps: int
    # With shared tokens, x has the vectors of so many tokens. Slices let the channels work in groups.
    execution: Execution = field(default_factory=Execution)
    masked: bool = False  # sequences have random lengths
    delta_threshold: float = 0.0  # elements of δ below it are dropped
    budget: float = 1.0  # memory budget over the memory that the network needs; below 1 cells spill
    seed: int = 1
    kept_cells: float = 1.0  # share of the cells that are not skipped, see :func:`etalstm.model.measured.early_cells`
    cell: str = LSTM.name

    @property
    def shape(self) -> TrainingShape:
        """The shape of the training session."""
        network = NetworkShape(self.inputs, self.hidden, self.layers, self.cell)
        return TrainingShape(network, self.batch, self.steps, self.execution, masked=self.masked)


sparse = partial(Execution.read, storage="ms1-bf16", theta=0.1)
PRUNED = sparse()
CONFIGURATIONS = (
    Configuration("test dense", "test", 5, 6, 1, 3, 3),
    Configuration("test layers", "test", 9, 20, 2, 7, 4),
    Configuration("test masked", "test", 5, 6, 1, 3, 3, masked=True),
    Configuration("test streams", "test", 9, 20, 2, 7, 4, Execution.read(storage="ms1")),
    Configuration("test sparse", "test", 9, 20, 2, 7, 6, PRUNED),
    Configuration("test pruned", "test", 9, 40, 1, 2, 4, Execution.read(storage="ms1-bf16"), delta_threshold=0.3),
    Configuration("test dynamic", "test", 9, 20, 1, 7, 4, Execution.read(architecture="dynamic")),
    Configuration("test static", "test", 9, 20, 1, 7, 4, Execution.read(architecture="static")),
    Configuration("test inference", "test", 9, 20, 1, 7, 4, Execution.read(architecture="inference")),
    Configuration("sim dense", "sim", 8, 32, 1, 32, 8),
    Configuration("sim layers masked", "sim", 20, 40, 2, 12, 6, masked=True),
    Configuration("sim streams", "sim", 20, 48, 2, 16, 6, Execution.read(storage="ms1")),
    Configuration("sim sparse", "sim", 24, 64, 1, 16, 6, PRUNED),
    Configuration("sim static", "sim", 20, 40, 1, 16, 4, Execution.read(architecture="static")),
    Configuration("sim dynamic streams", "sim", 20, 40, 1, 16, 4,
                  Execution.read(storage="ms1", architecture="dynamic")),
    Configuration("test narrow", "test", 9, 40, 2, 7, 4, sparse(weight_format=BF16)),
    Configuration("test narrow groups", "test", 9, 20, 2, 8, 4, Execution.read(slices=2, weight_format=BF16)),
    Configuration("slice narrow", "slice", 64, 128, 1, 16, 4, sparse(weight_format=BF16)),
    Configuration("test spill", "test", 5, 19, 2, 12, 32, Execution.read(storage="ms1", theta=0.1), budget=0.95),
    Configuration("test changes", "test", 9, 20, 2, 7, 6, sparse(input_threshold="0.3")),
    Configuration("test changes masked", "test", 9, 20, 2, 7, 9,
                  Execution.read(input_threshold="0.3", refresh=4), masked=True),
    Configuration("sim changes", "sim", 24, 64, 2, 16, 6, sparse(input_threshold="0.5")),
    Configuration("slice changes", "slice", 64, 128, 1, 16, 4, sparse(input_threshold="0.5")),
    Configuration("test changes rows", "test", 30, 40, 2, 7, 6,
                  Execution.read(input_threshold="0.3", refresh=4), masked=True),
    Configuration("sim changes rows", "sim", 120, 160, 1, 8, 6, sparse(input_threshold="0.5")),
    Configuration("slice changes rows", "slice", 256, 320, 1, 4, 4, Execution.read(input_threshold="1/0.1")),
    Configuration("test tokens", "test", 9, 20, 2, 7, 6, Execution.read(shared_tokens=11), masked=True),
    Configuration("slice tokens groups", "slice", 40, 64, 1, 16, 4, Execution.read(slices=2, shared_tokens=37)),
    Configuration("test cells", "test", 9, 20, 2, 7, 6, PRUNED, kept_cells=0.5),
    Configuration("sim cells dynamic", "sim", 20, 40, 2, 12, 6,
                  Execution.read(storage="ms1", theta=0.1, architecture="dynamic"), kept_cells=0.5),
    Configuration("slice cells dense", "slice", 48, 96, 2, 16, 5, kept_cells=0.4),
    Configuration("test hlstm", "test", 9, 20, 2, 7, 4, masked=True, cell=HLSTM.name),
    Configuration("sim hlstm sparse", "sim", 8, 64, 1, 16, 4, PRUNED, cell=HLSTM.name),
    Configuration("test groups", "test", 9, 20, 2, 8, 4, Execution.read(slices=2)),
    Configuration("test groups sparse", "test", 9, 20, 2, 8, 6, sparse(slices=2)),
    Configuration("slice groups", "slice", 40, 64, 1, 16, 4, Execution.read(storage="ms1-bf16", slices=2)),
    Configuration("slice dense", "slice", 40, 160, 1, 16, 3),
    Configuration("slice layers masked", "slice", 20, 40, 2, 12, 4, masked=True),
    Configuration("slice streams", "slice", 48, 96, 2, 16, 3, Execution.read(storage="ms1")),
    Configuration("slice sparse", "slice", 64, 128, 1, 16, 4, PRUNED),
    Configuration("slice dynamic", "slice", 40, 160, 1, 16, 3, Execution.read(architecture="dynamic")),
    Configuration("vcu128 dense", "vcu128", 512, 512, 1, 16, 2, Execution.read(storage="ms1-bf16")),
    # with this threshold 0.1 of δ is not zero
    Configuration("vcu128 sparse", "vcu128", 512, 512, 1, 16, 2,
                  Execution.read(storage="ms1-bf16"), delta_threshold=0.17),
)  # fmt: skip
SLOW = "vcu128"  # its simulator takes minutes to build, and minutes to run


def chosen(preset_name: str | None) -> list[Configuration]:
    """Give the configurations of a preset, or of all but the slow one.

    Raises ``ValueError`` if there is none of that preset.
    """
    names = dict.fromkeys(one.preset for one in CONFIGURATIONS)
    if preset_name is None:
        return [one for one in CONFIGURATIONS if one.preset != SLOW]
    if preset_name not in names:
        raise ValueError(f"the model is checked on the presets {', '.join(names)}, got {preset_name!r}")
    return [one for one in CONFIGURATIONS if one.preset == preset_name]


def check(
    preset: Annotated[str | None, Option(help="That of the machine [default: all that take seconds]")] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON objects, one a line")] = False,
) -> None:
    """Compare the cycles of the model with those of the Verilog, on several networks and machines."""
    check_all(chosen(preset), as_json)


def check_all(configurations: Sequence[Configuration], as_json: bool = False) -> float:
    """Compare model and Verilog on configurations, a line each; print the largest error last, and give it."""
    largest = 0.0
    for configuration in configurations:
        found = compare(configuration)
        largest = max(largest, found["error"])
        print(json.dumps(found) if as_json else _line(found), flush=True)
    print(json.dumps({"largest_error": largest}) if as_json else f"largest error {largest:.3%}")
    return largest


def _line(found: dict) -> str:
    return (
        f"{found['configuration']:20s} model {found['model_cycles']:11,} cycles, Verilog {found['cycles']:11,}, "
        f"error {found['error']:.3%}"
    )


class ModelledAccelerator(Accelerator):
    """An accelerator that runs the cycle model of each program after it, on the memory that the program leaves.

    `cycles`, `model_cycles`: of all programs. `session`: whose programs run; set by the user.
    """

    cycles = model_cycles = 0
    session: HardwareSession

    @contextmanager
    def running(self, program, timeout_seconds=None):
        """Run a program, then the model of it; like :meth:`Accelerator.running`."""
        with super().running(program, timeout_seconds):
            yield
        self.cycles += self.counters()["cycles"]
        image = self.transport.read_memory(program.address, program.instructions * INSTRUCTION_BYTES).tobytes()
        plan, architecture = self.session.plan, self.session.shape.execution.architecture
        sent = [operand for layer in plan.map.layers for operand in layer.operands_sent]
        counters = count_program(
            self.config, words_of(image), Densities(self.config, plan), architecture,
            counted=Counted(self.config, self._read_window, plan.groups, sent), groups=plan.groups,
        )  # fmt: skip
        self.model_cycles += int(counters[Counter.CYCLES])

    def _read_window(self, channel: int, beat: int, beats: int) -> np.ndarray:
        base, stride, _ = self._windows
        size = self.config.beat_bytes
        return self.transport.read_memory(base + channel * stride + beat * size, beats * size).view(np.uint32)


def compare(configuration: Configuration, machine: Config | None = None) -> dict:
    """Run an iteration on the Verilog, and each of its programs through the model.

    `machine`: the machine to take instead of the preset.
    """
    shape, config = configuration.shape, machine or preset(configuration.preset)
    transport = SimTransport(config, log=say)
    accelerator = ModelledAccelerator(transport, config)

    def created() -> HardwareSession:
        session = device.create(shape)
        assert isinstance(session, HardwareSession)  # the networks fit without parts
        return session

    with HardwareDevice("sim", configuration.preset, accelerator) as device:
        accelerator.session = created()
        if configuration.budget < 1:
            shape = replace(shape, memory_budget=int(configuration.budget * accelerator.session.plan.memory_bytes))
            accelerator.session = created()
        run(accelerator.session, shape, configuration)
    return {
        "configuration": configuration.name,
        "model_cycles": accelerator.model_cycles,
        "cycles": accelerator.cycles,
        "error": abs(accelerator.model_cycles - accelerator.cycles) / accelerator.cycles,
    }


def run(session, shape: TrainingShape, configuration: Configuration) -> None:
    """Run an iteration of a random network on random data."""
    generator = np.random.default_rng(configuration.seed)

    def draw(size):
        return generator.standard_normal(size, np.float32)

    session.load(initial_parameters(shape.network, configuration.seed))
    x, dy, h0, c0 = (draw(size) for size in (shape.x_shape, shape.y_shape, shape.state_shape, shape.state_shape))
    lengths = generator.integers(1, shape.steps + 1, shape.batch) if shape.masked else None
    tokens = None
    if shape.execution.shared_tokens:
        tokens = generator.integers(0, shape.execution.shared_tokens, shape.x_shape[:2])
        x = draw((shape.execution.shared_tokens, shape.network.input_size))[tokens]
    skipped = early_cells(shape.network.layers, shape.steps, (configuration.kept_cells,))
    session.forward(x, lengths, h0, c0, skipped, tokens)
    session.backward(dy, delta_threshold=configuration.delta_threshold)
    session.update(0.1, 0.9, 1.0)
