"""A program that is broken off leaves any words where it wrote; nothing of the driver takes them for results."""

import random

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.accelerator import Accelerator
from etalstm.errors import CallOrderError
from etalstm.network.arithmetic import arithmetic_named
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm_hw.config import preset
from etalstm_hw.contract import Memory, Opcode, Status, encode
from etalstm_hw.contract.image import image_of
from etalstm_sim.transport import SimTransport

WINDOW, PROGRAM, WINDOW_BYTES = 1 << 19, 1 << 18, 4096
PLACE = {"memory": Memory.SCRATCH, "outer": 1, "inner": 64, "inner_stride": 1}
COPY = (encode(Opcode.LOAD, **PLACE), encode(Opcode.STORE, address=64, wait_load=1, **PLACE), encode(Opcode.HALT))
SHAPE = TrainingShape(NetworkShape(3, 9, 2), execution=Execution(storage=Storage("ms1", 0.2)), batch=3, steps=3)
SHAPES = {"test": SHAPE, "test-int8": SHAPE.with_execution(arithmetic=arithmetic_named("int8", 15))}
SEED = 12


class Stop(Exception):
    """The host breaks a program off."""


def stop_after(session, cycles):
    """Have the driver's next wait for a program be broken off after so many cycles of the machine."""
    transport = session._accelerator.transport
    wait = transport.wait

    def break_off(_):
        transport.simulation.run(cycles)
        transport.wait = wait
        raise Stop

    transport.wait = break_off


def words_after_abort(config, cycles, **memory):
    """Tell which kinds of words an aborted copy leaves at its target."""
    with SimTransport(config, memory_bytes=1 << 20, **memory) as transport:
        accelerator = Accelerator(transport, config)
        accelerator.set_windows(WINDOW, WINDOW_BYTES)
        source, target = (slice(WINDOW + at, WINDOW + at + 1024) for at in (0, 1024))
        new = np.arange(1, 257, dtype=np.uint32)
        transport.simulation.memory[source] = new.view(np.uint8)
        transport.simulation.memory[target] = 0
        accelerator.start(accelerator.load(image_of(COPY), PROGRAM))
        transport.simulation.run(cycles)
        accelerator.abort()
        found = transport.simulation.memory[target].view(np.uint32)
        pairs = zip(found, new, strict=True)
        return {"old" if not word else "new" if word == right else "other" for word, right in pairs}


def test_only_a_memory_with_strobes_keeps_old_words():
    config = preset("test")
    left = {}
    for strobes in (True, False):
        left[strobes] = set().union(*(words_after_abort(config, n, strobes=strobes) for n in range(100, 400, 9)))
    assert left == {True: {"old", "new"}, False: {"old", "new", "other"}}


@pytest.fixture(params=SHAPES)
def session(request):
    with open_device("sim", request.param, stall=0.3, seed=SEED) as device:
        session = device.create(SHAPES[request.param])
        session.load(initial_parameters(SHAPE.network, SEED))
        yield session


def iterate(session):
    """Run an iteration; give the results and the weights."""
    generator = np.random.default_rng(SEED)
    y = session.forward(generator.standard_normal(SHAPE.x_shape, np.float32)).y
    back = session.backward(generator.standard_normal(SHAPE.y_shape, np.float32))
    results = [y, back.dx, *(layer.weights for layer in session.gradients())]
    session.update(0.1, 0.9, 1.0)
    return [*results, *(layer.weights for layer in session.parameters())]


def test_a_pass_after_one_that_was_broken_off_has_its_bits(session):
    generator, parameters = random.Random(SEED), initial_parameters(SHAPE.network, SEED)
    expected = iterate(session)
    for _ in range(6):
        session.load(parameters)
        for call in ("forward", "backward"):
            x, dy = np.ones(SHAPE.x_shape, np.float32), np.ones(SHAPE.y_shape, np.float32)
            if call == "backward":
                session.forward(x)
            stop_after(session, generator.randrange(200, 6000))
            with pytest.raises(Stop):
                session.forward(x) if call == "forward" else session.backward(dy)
        session.load(parameters)  # with integers also the exponents, which follow from the passes before
        for found, right in zip(iterate(session), expected, strict=True):
            np.testing.assert_array_equal(found, right, f"seed {SEED}")


def assert_refused(session):
    x = np.ones(SHAPE.x_shape, np.float32)
    for call in (session.parameters, session.velocities, session.scrub, lambda: session.forward(x)):
        with pytest.raises(CallOrderError, match=r"needs load\(\) first"):
            call()


def test_weights_whose_update_was_broken_off_are_not_given_out(session):
    session.forward(np.ones(SHAPE.x_shape, np.float32))
    session.backward(np.ones(SHAPE.y_shape, np.float32))
    stop_after(session, 300)
    with pytest.raises(Stop):
        session.update(0.1)
    assert_refused(session)
    assert session._accelerator.transport.read_register(0x14) == Status.ABORTED


def test_weights_that_were_on_their_way_to_another_place_are_not_given_out(session, monkeypatch):
    write, left = session._accelerator.transport.write_memory, 5
    expected = iterate(session)
    session.load(initial_parameters(SHAPE.network, SEED))

    def break_off(address, data):
        nonlocal left
        left -= 1
        if not left:
            raise Stop
        write(address, data)

    with monkeypatch.context() as patch:
        patch.setattr(session._accelerator.transport, "write_memory", break_off)
        with pytest.raises(Stop):
            session.store_as(Storage("dense"))
    assert_refused(session)
    session.load(initial_parameters(SHAPE.network, SEED))
    for found, right in zip(iterate(session), expected, strict=True):
        np.testing.assert_array_equal(found, right, f"seed {SEED}")


@pytest.mark.parametrize("session", ["test-int8"], indirect=True)
def test_integers_whose_making_was_broken_off_are_not_used(session):
    stop_after(session, 300)
    with pytest.raises(Stop):
        session.store_as(Storage("dense"))
    assert_refused(session)
