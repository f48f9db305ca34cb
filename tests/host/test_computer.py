"""What no memory holds is refused in one line, before it is allocated; processes and garbage."""

import gc
import signal
import time

import pytest

from etalstm.cli.main import run
from etalstm.device import TrainingShape, open_device
from etalstm.errors import HostMemoryError, PlanError
from etalstm.host import computer
from etalstm.host.computer import check_host_memory, host_bytes, seldom_collected, signals_deferred, worker_processes
from etalstm.network.cells.hlstm import HLSTM
from etalstm.network.cells.lstm import LSTM
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset
from tests.network.cells.two_stages import TWO_STAGES

SHAPE = TrainingShape(NetworkShape(3, 5, 2), batch=2, steps=7)


def test_counts_weights_as_they_are():
    network = NetworkShape(3, 5, 3)
    assert network.weights() == sum(entry.weights.size for entry in initial_parameters(network, 0))
    assert LSTM.weights(3, 5) == 4 * 5 * 8
    assert TWO_STAGES.weights(3, 5) == 5 * 8 + 3 * 5 * 5
    assert HLSTM.weights(3, 5) == 4 * 5 * 8 + 4 * 5 * 5


def test_the_memory_is_the_computers_or_its_limit(tmp_path, monkeypatch):
    whole = host_bytes()
    assert 1 << 28 < whole < 1 << 48
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(computer, "_GROUP_LIMIT", limit)
    limit.write_text("1000\n")
    assert host_bytes() == 1000
    with pytest.raises(HostMemoryError, match=r"^they need 1,001 bytes of memory, this computer has 1,000$"):
        check_host_memory("they", 1001)
    check_host_memory("they", 1000)
    limit.write_text("max\n")
    assert host_bytes() == whole


@pytest.mark.parametrize("device", ["golden", "sim"])
def test_a_device_refuses_what_the_host_cannot_hold(device, monkeypatch):
    with open_device(device, preset="test") as opened:
        opened.create(SHAPE)
        monkeypatch.setattr(computer, "host_bytes", lambda: 1000)
        with pytest.raises(HostMemoryError, match="the arrays of an iteration need "):
            opened.create(SHAPE)
    with pytest.raises(HostMemoryError, match="the network's weights need"):
        initial_parameters(SHAPE.network, 0)


def test_the_bound_of_a_plan_is_not_above_what_it_takes():
    footprint = (plan := Plan(preset("test"), NetworkShape(8, 32, 2), 4, 4)).footprint()
    needed = footprint["weights"] + footprint["optimizer"]
    with pytest.raises(PlanError, match="weights, velocities and gradients alone need") as refused:
        Plan(preset("test"), plan.network, 4, 4, memory_bytes=4096)
    least = int(str(refused.value).split("need ")[1].split()[0].replace(",", ""))
    assert 0.9 * needed < least <= needed


HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "compare", "--devices", "golden,golden", "--hidden", "1000000"],
        ["verify", "compare", "--devices", "golden,golden", "--layers", "1000000000000"],
        ["verify", "compare", "--devices", "golden,golden", "--steps", "1000000000"],
        ["verify", "compare", "--hidden", "1000000"],
        ["bench", "golden", "--hidden", "1000000"],
        ["plan", "--hidden", "20000"],
        ["plan", "--layers", "100000"],
        ["plan", "--steps", "1000000", "--memory", "1000000000"],
    ],
)
def test_sizes_that_no_memory_holds_are_one_line_at_once(capsys, arguments):
    started = time.monotonic()
    assert run(arguments) == 2
    assert time.monotonic() - started < 10
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Traceback" not in error
    assert "of memory, " in error and " has " in error, error


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "compare", "--devices", "golden,golden", "--hidden", HUGE],
        ["verify", "compare", "--devices", "golden,golden", "--layers", HUGE],
        ["verify", "compare", "--steps", HUGE],
        ["bench", "iteration", "--preset", "test", "--hidden", HUGE],
        ["bench", "golden", "--batch", HUGE],
        ["plan", "--hidden", HUGE],
        ["train", "--dataset", "digits", "--out", "/proc/none", "--hidden", HUGE],
        ["train", "--dataset", "digits", "--out", "/proc/none", "--layers", HUGE],
        ["train", "--dataset", "digits", "--out", "/proc/none", "--steps", HUGE],
    ],
    ids=" ".join,
)
def test_sizes_that_no_machine_counts_are_one_line(capsys, arguments):
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "must be at most 281,474,976,710,656" in error, error


@pytest.mark.parametrize(
    ("message", "shown"), [("Unable to allocate 119. GiB", ": Unable to allocate 119. GiB"), ("", "")]
)
def test_an_allocation_that_fails_is_one_line(capsys, monkeypatch, message, shown):
    def fail(*_, **__):
        raise MemoryError(message)

    monkeypatch.setattr("etalstm_hw.generate.write", fail)
    assert run(["hw", "verilog", "--preset", "test", "-o", "nowhere"]) == 2
    assert capsys.readouterr().err == f"eta-lstm: this computer's memory is too small{shown}\n"


def test_garbage_is_looked_for_less_often_until_the_end_or_an_error():
    usual = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), seldom_collected():
        assert gc.get_threshold()[0] > 10 * usual[0]
        raise ZeroDivisionError
    assert gc.get_threshold() == usual


state = ["as imported"]


def begin(text):
    state.append(text)


def state_there():
    return state


def test_processes_are_not_forked_and_begin_with_a_call():
    state[0] = "as it is in the parent"
    with worker_processes(1, begin, ("begun",)) as pool:
        assert pool.submit(state_there).result() == ["as imported", "begun"]


def test_a_signal_waits_for_the_end_of_what_must_not_be_halved():
    done = []

    def interrupt(*_):
        done.append("interrupted")

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        with signals_deferred():
            signal.raise_signal(signal.SIGTERM)
            done.append("whole")
        assert done == ["whole", "interrupted"] and signal.getsignal(signal.SIGTERM) is interrupt
    finally:
        signal.signal(signal.SIGTERM, previous)
