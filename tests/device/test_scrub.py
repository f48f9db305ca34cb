"""A bit that turns over in a machine's memory is found by a scrub; without one nobody notices."""

import itertools

import numpy as np
import pytest

from etalstm.device import OffloadDevice, ParanoidDevice, TrainingShape, open_device
from etalstm.device.machine.windows import Windows
from etalstm.errors import CallOrderError, DamagedMemoryError
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from tests.training import with_changes

SHAPE = TrainingShape(NetworkShape(3, 5, 2), 7, 3)
TOKENS = np.array([[1, 2, 1, 0, 2, 2, 1]] * 3)
STATE = ("rows0", "columns1", "bias0", "velocity1", "bias_velocity0")
INPUTS = ("x0", "h0", "h1", "dy1")
CHOICES = {
    "dense": {},
    "masked": {"masked": True},
    "ms1": {"storage": Storage("ms1", 0.05), "masked": True},
    "mixed": {"storage": Storage(("ms1-bf16", "dense"), 0.05)},
    "groups": {"network": NetworkShape(3, 4, 2), "slices": 2, "storage": Storage("ms1", 0.05)},
    "groups, bf16": {"network": NetworkShape(3, 4, 2), "slices": 2, "weight_format": "bf16"},
    "slices": {"slices": 3},
    "bf16": {"weight_format": "bf16", "storage": Storage("ms1", 0.05)},
    "delta inputs": {"delta_inputs": DeltaInputs((0.5, 0.1), 3), "storage": Storage("ms1")},
    "shared tokens": {"shared_tokens": 5, "masked": True},
    "small logs": {"storage": Storage("ms1"), "log_share": 0.01},
    "layers apart": {"layers_apart": True},
}
GROUPS = ("groups", "groups, bf16")


@pytest.fixture(params=CHOICES)
def choice(request):
    return request.param


def shape_of(choice):
    return with_changes(SHAPE, **CHOICES[choice])


def load(session, seed):
    """Put weights and velocities on the device, none of them zero."""
    session.load(*(initial_parameters(session.shape.network, number) for number in (2 * seed, 2 * seed + 1)))


def begun(device, shape):
    """Give a session that has gone forward and backward."""
    session = device.create(shape)
    load(session, 0)
    passes(session, 0)
    return session


def passes(session, seed, scrub=lambda: None):
    """Run both passes; give their results."""
    shape, draw = session.shape, np.random.default_rng(seed)
    tokens = {"tokens": TOKENS} if shape.execution.shared_tokens else {}
    x = draw.standard_normal((5, 3), np.float32)[TOKENS]
    x = x if tokens else draw.standard_normal(shape.x_shape, np.float32)
    lengths = [3, 1, 2, 3, 3, 2, 1] if shape.masked else None
    states = (draw.standard_normal(shape.state_shape, np.float32) for _ in range(4))
    outputs = session.forward(x, lengths, next(states), next(states), **tokens)
    scrub()
    back = session.backward(draw.standard_normal(shape.y_shape, np.float32), next(states), next(states))
    scrub()
    return [outputs.y, outputs.h, outputs.c, back.dx, back.dh0, back.dc0]


def trained(session, scrub=lambda: None):
    """Train for two iterations; give the bits of all results."""
    session.load(initial_parameters(session.shape.network, 1))
    scrub()
    found = []
    for seed in range(2):
        found += passes(session, seed, scrub)
        session.update(0.1, 0.9, 1.0, 0.01)
        scrub()
        scrub()
    found += [array for layer in session.parameters() + session.velocities() for array in (layer.weights, layer.bias)]
    return [array.tobytes() for array in found]


def turn(device, session, name):
    """Turn over the last bit of the first element of an array, in the last copy of it."""
    memory = session.plan.map.memory
    array = memory.arrays[name]
    channel, vector, lane, *_ = map(int, np.argwhere(array.elements >= 0)[0])
    window = session.placement.window((array.copies - 1) * array.copy_words[0] + channel)
    address = window.start + (array.first + vector) * memory.vector_bytes + 4 * lane
    device.accelerator.transport.simulation.memory[address] ^= 1


def assert_finds(device, session, name, message):
    turn(device, session, name)
    with pytest.raises(DamagedMemoryError, match=message):
        session.scrub()
    turn(device, session, name)
    session.scrub()


def test_a_good_memory_is_never_refused_and_stays_as_it_is(choice):
    with open_device("sim", "test") as device:
        plain, scrubbed = (device.create(shape_of(choice)) for _ in range(2))
        assert trained(scrubbed, scrubbed.scrub) == trained(plain)
        assert plain.plan.groups == (2 if choice in GROUPS else 1)


def test_a_changed_bit_is_found_in_every_array(choice):
    with open_device("sim", "test") as device:
        session = begun(device, shape_of(choice))
        arrays = session.plan.map.memory.arrays
        of_layer = STATE + INPUTS + ("weights0",) * ("weights0" in arrays)
        for name in of_layer:
            assert_finds(device, session, name, f"layer {name[-1]}: .*{name} ")
        for name in {"mask", "token_x", "chosen_tokens"} & arrays.keys():
            assert_finds(device, session, name, f"{name} at ")


def test_after_an_update_the_first_scrub_makes_the_digests():
    with open_device("sim", "test") as device:
        session = begun(device, SHAPE)
        session.update(0.1, 0.9)
        turn(device, session, "velocity0")
        session.scrub()
        session.scrub()
        turn(device, session, "velocity0")
        with pytest.raises(DamagedMemoryError, match=r"layer 0: velocity0 has changed .* digest is 0x\w{8}, it was 0x"):
            session.scrub()


@pytest.mark.parametrize("name", [*STATE, "x0", "dy1"])
def test_nobody_notices_without_a_scrub(name):
    with open_device("sim", "test") as device:
        session = begun(device, SHAPE)
        turn(device, session, name)
        session.update(0.1, 0.9)
        passes(session, 1)


def test_the_message_has_place_and_words():
    with open_device("sim", "test") as device:
        session = begun(device, SHAPE)
        words = r"is 0x\w{8}, {} 0x\w{8}; 1 words differ"
        assert_finds(device, session, "rows1", r"layer 1: columns1 at \[0, 0\] " + words.replace("{}", "rows1 has"))
        assert_finds(device, session, "x0", r"layer 0: x0 at \[0, 0, 0\] " + words.replace("{}", "the host wrote"))


def test_copies_of_groups_are_compared_with_each_other():
    with open_device("sim", "test") as device:
        session = begun(device, shape_of("groups"))
        assert_finds(device, session, "bias1", r"layer 1: bias1 at \[0\] is 0x\w{8}, another channel has 0x")


def test_a_transfer_that_was_lost_is_found(monkeypatch):
    with open_device("sim", "test") as device:
        transport, session = device.accelerator.transport, device.create(SHAPE)
        write, count = transport._write_memory, itertools.count()
        monkeypatch.setattr(transport, "_write_memory", lambda *given: next(count) == lost or write(*given))
        lost = None
        load(session, 0)
        for lost in range(next(count)):
            count = itertools.count()
            load(session, 1 + lost)
            with pytest.raises(DamagedMemoryError):
                session.scrub()


@pytest.mark.parametrize(
    "change", [lambda s: s.store_as(Storage("ms1", 0.05)), lambda s: s.send_as(DeltaInputs(0.1, 0))]
)
def test_arrays_that_move_keep_their_digests(change):
    with open_device("sim", "test") as device:
        for name in (None, "bias1"):
            session = begun(device, SHAPE)
            plan = session.plan
            if name:
                turn(device, session, name)
            change(session)
            assert session.plan is not plan
            if name is None:
                session.scrub()
        with pytest.raises(DamagedMemoryError, match="layer 1: bias1 has changed"):
            session.scrub()


def test_what_is_lost_while_arrays_move_is_found(monkeypatch):
    with open_device("sim", "test") as device:
        session = begun(device, SHAPE)
        session.update(0.1, 0.9)
        write = Windows.write

        def losing(windows, array, values):
            if array.name != "bias1":
                write(windows, array, values)

        monkeypatch.setattr(Windows, "write", losing)
        session.store_as(Storage("ms1", 0.05))
        with pytest.raises(DamagedMemoryError, match="layer 1: bias1 has changed"):
            session.scrub()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("wrap", [lambda device: device, OffloadDevice, lambda device: ParanoidDevice(device, 2)])
def test_a_session_before_another_one_has_it_scrubbed(monkeypatch, wrap, count):
    monkeypatch.setattr("etalstm.device.machine.hardware.part_counts", lambda slices: [count])
    shape, found = SHAPE.with_execution(slices=2), []
    for scrubs in (True, False):
        with open_device("sim", "test") as device:
            session = wrap(device).create(shape)
            found.append(trained(session, session.scrub) if scrubs else trained(session))
            passes(session, 1)
            session.scrub()
            (inner,) = device._sessions
            for name in ("columns0", "velocity1", "x0"):
                turn(device, inner, name)
                with pytest.raises(DamagedMemoryError, match=name):
                    session.scrub()
                turn(device, inner, name)
    assert found[0] == found[1]


def test_golden_has_nothing_to_compare_and_the_order_is_that_of_all_calls():
    session = open_device("golden").create(SHAPE)
    with pytest.raises(CallOrderError, match=r"scrub\(\) needs load\(\)"):
        session.scrub()
    trained(session, session.scrub)


def test_a_pass_of_fewer_steps_is_compared_with_what_was_written_of_it():
    with open_device("sim", "test") as device:
        session = begun(device, SHAPE)
        draw = np.random.default_rng(0)
        session.forward(draw.standard_normal((2, 7, 3), np.float32))
        session.backward(draw.standard_normal((2, 7, 5), np.float32))
        session.scrub()
        for name in ("x0", "h1", "dy1"):
            assert_finds(device, session, name, name)


def test_what_the_host_gave_in_place_of_a_pass_is_forgotten_when_the_machine_runs_one():
    with open_device("sim", "test") as device:
        session = begun(OffloadDevice(device), shape_of("delta inputs"))
        session.scrub()
        (inner,) = device._sessions
        passes(inner, 1, inner.scrub)
