"""One thread at a time uses a device, and nobody after it was closed."""

import inspect
import threading
import time
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

from etalstm.device import Device, OffloadDevice, Session, TrainingShape, open_device
from etalstm.device.access import Access
from etalstm.errors import BusyError, DeviceError
from etalstm.network.shape import NetworkShape, initial_parameters

SHAPE = TrainingShape(NetworkShape(3, 5), batch=2, steps=3)
X = np.random.default_rng(1).standard_normal(SHAPE.x_shape, np.float32)
DY = np.ones(SHAPE.y_shape, np.float32)
CALLS = [name for name, _ in inspect.getmembers(Session, inspect.isfunction) if not name.startswith("_")]


@pytest.fixture(params=["golden", "sim", "offload"])
def device(request):
    with open_device(request.param.replace("offload", "sim"), preset="test") as opened:
        yield OffloadDevice(opened) if request.param == "offload" else opened


def trained(device):
    session = device.create(SHAPE)
    session.load(initial_parameters(SHAPE.network, 0))
    session.forward(X)
    return session, session.backward(DY)


@contextmanager
def another_thread_in(access):
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with access.entered("stay"):
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(30)
    yield thread
    leave.set()
    thread.join()


def test_every_call_is_refused_while_another_thread_is_inside(device):
    session, gradients = trained(device)
    with another_thread_in(device.access):
        for name in CALLS:
            with pytest.raises(BusyError, match=rf"^{name}\(\): another thread uses device {device.name}; wait"):
                getattr(session, name)()
        for call in (device.create, device.best_slices):
            with pytest.raises(BusyError, match=call.__name__):
                call(SHAPE)
        with pytest.raises(BusyError, match="dx"):
            _ = gradients.dx
    assert gradients.dx.shape == X.shape
    session.update(0.1)


def test_every_call_is_refused_after_close(device):
    session, gradients = trained(device)
    device.close()
    device.close()
    for name in CALLS:
        with pytest.raises(DeviceError, match=rf"^{name}\(\): device {device.name} is closed$"):
            getattr(session, name)()
    with pytest.raises(DeviceError, match="is closed"):
        device.create(SHAPE)
    with pytest.raises(DeviceError, match="is closed"):
        _ = gradients.dx


def test_close_waits_for_the_call_that_goes_on(device):
    with another_thread_in(device.access) as inside:
        closing = threading.Thread(target=device.close)
        closing.start()
        closing.join(0.1)
        assert closing.is_alive() and inside.is_alive()
        trained_before = device.access
    closing.join(30)
    assert not closing.is_alive()
    with pytest.raises(DeviceError, match="is closed"), trained_before.entered("anything"):
        pass


def test_the_same_thread_may_enter_again():
    access = Access("it")
    with access.entered("a"), access.entered("b"):
        pass
    with another_thread_in(access), pytest.raises(BusyError, match="c: another thread uses it;"), access.entered("c"):
        pass


def test_threads_that_share_a_simulated_device_get_golden_bits_or_are_refused():
    with open_device("golden", preset="test") as golden:
        expected = trained(golden)[0].forward(X).y
    device, found, wrong = open_device("sim", preset="test"), [], []

    def work(session):
        while True:
            try:
                found.append(np.array_equal(session.forward(X).y, expected))
            except BusyError:
                time.sleep(0)
            except Exception as error:
                wrong.append(error)
                return

    shared, other = trained(device)[0], trained(device)[0]
    threads = [threading.Thread(target=work, args=(session,)) for session in (shared, shared, other)]
    for thread in threads:
        thread.start()
    while len(found) < 10 and any(thread.is_alive() for thread in threads):
        time.sleep(0.01)
    device.close()
    for thread in threads:
        thread.join(30)
    assert len(found) >= 10 and all(found)
    assert [str(error) for error in wrong] == ["forward(): device sim is closed"] * 3


def test_a_closed_simulation_has_no_memory():
    device = open_device("sim", preset="test")
    transport = device.accelerator.transport
    memory = weakref.ref(transport.simulation.memory)
    device.close()
    assert memory() is None
    for touch in (lambda: transport.read_memory(0, 4), lambda: transport.write_memory(0, b"1234"), transport.reset):
        with pytest.raises(DeviceError, match="the simulation is closed"):
            touch()


def test_a_simulation_that_another_thread_runs_is_busy():
    with open_device("sim", preset="test") as device:
        simulation = device.accelerator.transport.simulation
        with another_thread_in(simulation.access), pytest.raises(BusyError, match=r"read\(\): another thread uses the"):
            simulation.read(0)


def test_every_device_has_the_guarded_calls():
    for name in ("create", "close"):
        assert all(name not in vars(kind) for kind in Device.__subclasses__())
