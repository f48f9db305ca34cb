"""An iteration on the Verilog, and each of its programs through the cycle model."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.machine.session import HardwareSession
from etalstm.device.shape import TrainingShape
from etalstm.model.counted import Counted
from etalstm.model.iteration import count_program
from etalstm.model.measured import early_cells
from etalstm.model.operands import Densities
from etalstm.network.shape import initial_parameters
from etalstm_hw.config import Config, preset
from etalstm_hw.contract import Counter
from etalstm_hw.contract.image import INSTRUCTION_BYTES, words_of
from etalstm_sim.transport import SimTransport
from etalstm_sim.trials.model.configurations import Configuration


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
        integers = [layer.integers for layer in plan.map.layers if layer.integers]
        counters = count_program(
            self.config, words_of(image), Densities(self.config, plan), architecture,
            counted=Counted(self.config, self._read_window, plan.groups, sent, integers), groups=plan.groups,
        )  # fmt: skip
        self.model_cycles += int(counters[Counter.CYCLES])

    def _read_window(self, channel: int, beat: int, beats: int) -> np.ndarray:
        base, stride, _ = self._windows
        size = self.config.beat_bytes
        return self.transport.read_memory(base + channel * stride + beat * size, beats * size).view(np.uint32)


def compare(
    configuration: Configuration, machine: Config | None = None, log: Callable[[str], None] = lambda _: None
) -> dict:
    """Run an iteration on the Verilog, and each of its programs through the model.

    `machine`: the machine to take instead of the preset. `log` is told how far a build of the simulator is.
    """
    shape, config = configuration.shape, machine or preset(configuration.preset)
    transport = SimTransport(config, log=log)
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
        "text": configuration.text,
        "model_cycles": accelerator.model_cycles,
        "cycles": accelerator.cycles,
        "error": abs(accelerator.model_cycles - accelerator.cycles) / accelerator.cycles,
    }


def run(session, shape: TrainingShape, configuration: Configuration) -> None:
    """Run an iteration of a random network on random data."""
    session.load(initial_parameters(shape.network, configuration.seed))
    x, dy, h0, c0, lengths, tokens = random_iteration(shape, configuration.seed)
    skipped = early_cells(shape.network.layers, shape.steps, (configuration.kept_cells,))
    session.forward(x, lengths, h0, c0, skipped, tokens)
    session.backward(dy, delta_threshold=configuration.delta_threshold)
    session.update(0.1, 0.9, 1.0)


def random_iteration(shape: TrainingShape, seed: int) -> tuple:
    """Draw x, dy, h0, c0, lengths and tokens, the last two None where there are none.

    Where the shape shares tokens, x are vectors of as many random tokens.
    """
    generator = np.random.default_rng(seed)

    def normal(size):
        return generator.standard_normal(size, np.float32)

    x, dy, h0, c0 = (normal(size) for size in (shape.x_shape, shape.y_shape, shape.state_shape, shape.state_shape))
    if shape.execution.arithmetic.exact:
        h0 = np.clip(h0, -1, 1)
    lengths = generator.integers(1, shape.steps + 1, shape.batch) if shape.masked else None
    tokens = None
    if shape.execution.shared_tokens:
        tokens = generator.integers(0, shape.execution.shared_tokens, shape.x_shape[:2])
        x = normal((shape.execution.shared_tokens, shape.network.input_size))[tokens]
    return x, dy, h0, c0, lengths, tokens
