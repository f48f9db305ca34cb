"""A machine whose channels are compiled once is the machine in one piece: same cycles, same bits."""

import re

import numpy as np
import pytest

from etalstm.device import TrainingShape
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm_hw.config import preset
from etalstm_hw.contract import Register
from etalstm_sim.compiled.library import build_library, design, is_apart
from etalstm_sim.transport import SimTransport

NAME = "test"
CONFIG = preset(NAME)
SHAPE = TrainingShape(NetworkShape(3, 9, 2), batch=3, steps=3)


@pytest.fixture(scope="module")
def apart():
    """A simulator that can write a waveform: that of tests/device/test_comparison.py, compiled once."""
    return build_library(design(CONFIG, apart=True), waveform="vcd")


def train(library, **memory):
    """Run one training iteration; give the cycle, the counters, the whole memory and the beats of every port."""
    with SimTransport(CONFIG, library=library, memory_bytes=1 << 20, seed=7, **memory) as transport:
        session = HardwareDevice("sim", NAME, Accelerator(transport, CONFIG)).create(SHAPE)
        session.load(initial_parameters(SHAPE.network, 1))
        x = np.random.default_rng(2).standard_normal(SHAPE.x_shape, np.float32)
        session.backward(session.forward(x).y)
        session.update(0.1, 0.9, 1.0)
        simulation = transport.simulation
        beats = [simulation.beats(port, writes) for port in range(CONFIG.ports) for writes in (False, True)]
        return simulation.cycle, dict(session.counters()), simulation.memory.copy(), beats


@pytest.mark.parametrize("memory", [{}, {"stall": 0.5, "reorder": True}], ids=["", "stalled"])
def test_it_is_the_same_machine(apart, memory):
    cycle, counters, contents, beats = train(build_library(design(CONFIG)), **memory)
    apart_cycle, apart_counters, apart_contents, apart_beats = train(apart, **memory)
    assert counters["cycles"] > 1000
    assert apart_counters == counters
    assert apart_cycle == cycle
    assert apart_beats == beats
    np.testing.assert_array_equal(apart_contents, contents)


def test_a_waveform_shows_the_channels_too(apart, tmp_path):
    path = tmp_path / "apart.vcd"
    with SimTransport(CONFIG, library=apart, memory_bytes=1 << 20, trace=path) as transport:
        transport.read_register(Register.MAGIC)
    scopes = re.findall(r"\$scope module (\w+)", path.read_text())
    assert {"channel0", "channel1", "registered", "socketed"} <= set(scopes), scopes


def test_only_machines_of_many_channels_are_taken_apart(monkeypatch):
    assert not is_apart(preset("bench")) and is_apart(preset("vcu128"))
    assert design(CONFIG).channel is None
    monkeypatch.setattr("etalstm_sim.compiled.library.APART_CHANNELS", CONFIG.channels)
    many = design(CONFIG)
    assert many.channels == CONFIG.channels
    assert "module channel(" in many.channel.verilog
    assert "module channel(" not in many.verilog
