"""Every device refuses the same bad input; the golden one trains."""

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.errors import CallOrderError, DeviceError, DivergedError
from etalstm.network.shape import LayerParameters, NetworkShape, initial_parameters

SHAPE = TrainingShape(NetworkShape(3, 4, 2), batch=2, steps=5, masked=True)


@pytest.fixture
def session():
    with open_device("golden") as device:
        session = device.create(SHAPE)
        session.load(initial_parameters(SHAPE.network, 1))
        yield session


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_unknown_device_lists_the_known():
    with pytest.raises(ValueError, match=r"'abacus'.*golden"):
        open_device("abacus")
    with pytest.raises(ValueError, match="unknown device 3; there are: golden"):
        open_device(3)


@pytest.mark.parametrize(
    ("device", "options", "message"),
    [
        ("golden", {"stall": 0.5}, "device golden takes no options, got stall"),
        ("sim", {"colour": 1}, "a simulation has no option 'colour'; there are: bandwidth, .*latency"),
        ("sim", {"trace": 3}, "trace must be the path of a waveform, got 3"),
        ("sim", {"trace": "x.png"}, "waveform must be one of fst, vcd, got 'png'"),
        ("sim", {"memory_bytes": 1.5}, "memory_bytes must be an integer from 4096 to .*, got 1.5"),
        ("xdma:sim", {"colour": 1}, "a simulation has no option 'colour'"),
    ],
)
def test_options_that_do_not_suit_are_named(device, options, message):
    with pytest.raises(ValueError, match=message):
        open_device(device, preset="test", **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": normal(5, 2, 4)}, r"x must have shape \(5, 2, 3\), got \(5, 2, 4\)"),
        ({"x": normal(5, 2, 3).astype(np.float64)}, "x must be float32, got float64"),
        ({"x": [[1.0]]}, "x must be a NumPy array"),
        ({"x": np.full((5, 2, 3), np.inf, np.float32)}, r"x must be finite, got inf at index \(0, 0, 0\)"),
        ({"x": np.ma.masked_less(normal(5, 2, 3), 0)}, "x must be a plain NumPy array, got a masked one"),
        ({"skipped_cells": np.ma.array(np.zeros((2, 5), bool))}, "skipped_cells must be a plain NumPy array"),
        ({"lengths": np.ma.array([5, 5])}, "lengths must be a plain NumPy array"),
        ({"lengths": [5]}, "2 integers"),
        ({"lengths": [5, 6]}, "1 to 5, got 6 at index 1"),
        ({"lengths": [0, 5]}, "1 to 5, got 0 at index 0"),
        ({"lengths": [1.0, 5.0]}, "integers, got float64"),
        ({"h0": normal(1, 2, 4)}, r"h0 must have shape \(2, 2, 4\)"),
        ({"c0": np.full((2, 2, 4), np.nan, np.float32)}, "c0 must be finite"),
    ],
)
def test_forward_refuses_bad_input(session, arguments, message):
    with pytest.raises(ValueError, match=message):
        session.forward(**{"x": normal(5, 2, 3), **arguments})
    session.forward(normal(5, 2, 3))  # still usable


def test_backward_refuses_bad_input(session):
    session.forward(normal(5, 2, 3))
    with pytest.raises(ValueError, match=r"dy must have shape"):
        session.backward(normal(5, 2, 3))
    with pytest.raises(ValueError, match=r"dh must be float32"):
        session.backward(normal(5, 2, 4), dh=np.zeros((2, 2, 4)))
    session.backward(normal(5, 2, 4))


def test_lengths_need_a_masked_session():
    session = open_device("golden").create(TrainingShape(SHAPE.network, 2, 5))
    session.load(initial_parameters(SHAPE.network, 1))
    with pytest.raises(ValueError, match="not masked"):
        session.forward(normal(5, 2, 3), lengths=[5, 4])


def test_sizes_must_be_positive():
    with pytest.raises(ValueError, match="steps must be above 0, got 0"):
        TrainingShape(SHAPE.network, 2, 0)


def test_calls_out_of_order_say_what_is_missing():
    session = open_device("golden").create(SHAPE)
    with pytest.raises(CallOrderError, match=r"forward\(\) needs load\(\)"):
        session.forward(normal(5, 2, 3))
    session.load(initial_parameters(SHAPE.network, 1))
    with pytest.raises(CallOrderError, match=r"backward\(\) needs forward\(\)"):
        session.backward(normal(5, 2, 4))
    with pytest.raises(CallOrderError, match=r"update\(\) needs backward\(\)"):
        session.update(0.1)
    with pytest.raises(CallOrderError, match=r"gradients\(\) needs backward\(\)"):
        session.gradients()
    session.forward(normal(5, 2, 3))
    stale = session.backward(normal(5, 2, 4))
    session.update(0.1)
    with pytest.raises(CallOrderError, match=r"update\(\) needs backward\(\)"):
        session.update(0.1)
    session.forward(normal(5, 2, 3))
    with pytest.raises(CallOrderError, match="dx of a backward pass"):
        _ = stale.dx


def test_load_refuses_another_network(session):
    with pytest.raises(ValueError, match="must have 2 layers, got 1"):
        session.load(initial_parameters(NetworkShape(3, 4, 1), 0))
    with pytest.raises(ValueError, match="velocities"):
        session.load(initial_parameters(SHAPE.network, 0), initial_parameters(NetworkShape(3, 4, 1), 0))


def test_padded_steps_give_zero_outputs_and_take_no_gradient(session):
    x, dy = normal(5, 2, 3), normal(5, 2, 4)
    outputs = session.forward(x, lengths=[5, 2])
    assert not outputs.y[2:, 1].any() and outputs.y[:, 0].all()
    assert np.array_equal(outputs.h[-1, 1], outputs.y[1, 1])
    first = session.backward(dy)
    norm, dx = first.norm, first.dx
    dy[2:, 1] = 100.0
    session.forward(x, lengths=[5, 2])
    again = session.backward(dy)
    assert again.norm == norm and np.array_equal(again.dx, dx)
    assert not dx[2:, 1].any()


def test_the_backward_pass_reads_nothing_that_the_caller_was_given(session):
    x, dy, found = normal(5, 2, 3), normal(5, 2, 4), []
    for factor in (1, 0):
        outputs = session.forward(x, lengths=[5, 2])
        for array in vars(outputs).values():
            array *= factor
        found.append((session.backward(dy).norm, session.gradients()[0].weights))
    assert found[0][0] == found[1][0] and np.array_equal(found[0][1], found[1][1])


def test_gradients_come_in_the_layout_of_tensors_too(session):
    session.forward(normal(5, 2, 3))
    session.backward(normal(5, 2, 4))
    gradients = session.gradients()[0]
    w_ih, w_hh, bias = gradients.tensors()
    assert np.array_equal(np.concatenate([w_ih, w_hh], axis=1), gradients.weights)
    assert w_ih.flags.c_contiguous and w_hh.flags.c_contiguous and np.array_equal(bias, gradients.bias)
    for tensor in (w_ih, w_hh, bias):
        tensor[:] = 0
    assert gradients.weights.all() and gradients.bias.all(), "the tensors are the session's own arrays"


def test_state_carried_over_continues_the_sequence(session):
    x = normal(5, 2, 3)
    whole = session.forward(x)
    first = session.forward(x, lengths=[3, 3])
    rest = np.concatenate([x[3:], np.zeros_like(x[:3])])
    second = session.forward(rest, lengths=[2, 2], h0=first.h, c0=first.c)
    assert np.array_equal(second.y[:2], whole.y[3:])
    assert np.array_equal(second.c, whole.c)


def test_update_descends_and_reports_no_cycles(session):
    x, target = normal(5, 2, 3), normal(5, 2, 4, seed=1) * np.float32(0.3)
    losses = []
    for _ in range(20):
        y = session.forward(x).y
        losses.append(float(((y - target) ** 2).sum()))
        session.backward(2 * (y - target))
        session.update(0.1, momentum=0.5, clip=1.0, weight_decay=1e-4)
    assert losses[-1] < 0.9 * losses[0]
    assert session.counters() == {"cycles": 0}
    assert any(entry.weights.any() for entry in session.velocities())


def test_gradients_are_in_the_order_of_the_weights(session):
    """Moving one weight moves the loss by its gradient."""
    x, dy = normal(5, 2, 3), normal(5, 2, 4, seed=2)
    parameters = session.parameters()
    session.forward(x)
    session.backward(dy)
    gradient = session.gradients()[0].weights[9, 2]
    losses = []
    for step in (-0.02, 0.02):
        weights = parameters[0].weights.copy()
        weights[9, 2] += np.float32(step)
        session.load([LayerParameters(weights, parameters[0].bias), parameters[1]])
        losses.append(float((session.forward(x).y.astype(np.float64) * dy).sum()))
    assert (losses[1] - losses[0]) / 0.04 == pytest.approx(gradient, rel=1e-2, abs=1e-4)


def test_divergence_leaves_the_weights(session):
    session.forward(normal(5, 2, 3))
    session.backward(np.full((5, 2, 4), 1e30, np.float32))
    before = session.parameters()
    with pytest.raises(DivergedError, match="diverged"):
        session.update(0.1)
    for expected, actual in zip(before, session.parameters(), strict=True):
        assert np.array_equal(expected.weights, actual.weights)


def test_weights_that_overflow_are_divergence(session):
    session.forward(normal(5, 2, 3))
    session.backward(normal(5, 2, 4) * np.float32(1e10))
    session.update(3e38)
    with pytest.raises(DivergedError, match="overflowed"):
        session.parameters()


@pytest.mark.parametrize("call", ["_load", "_update"])
def test_weights_of_a_call_that_failed_are_not_used(call, monkeypatch):
    """Some may be new and some old: an update that is repeated would be applied twice."""
    session = open_device("golden").create(SHAPE)
    session.load(initial_parameters(SHAPE.network, 1))
    session.forward(normal(5, 2, 3))
    session.backward(normal(5, 2, 4))

    def fail(*arguments):
        raise DeviceError("the link is down")

    monkeypatch.setattr(session, call, fail)
    with pytest.raises(DeviceError, match="link"):
        session.update(0.1) if call == "_update" else session.load(initial_parameters(SHAPE.network, 2))
    for refused in (lambda: session.update(0.1), session.parameters, lambda: session.forward(normal(5, 2, 3))):
        with pytest.raises(CallOrderError, match=r"needs (load|backward)\(\) first"):
            refused()
    monkeypatch.undo()
    session.load(initial_parameters(SHAPE.network, 1))
    session.forward(normal(5, 2, 3))


def test_contributions_are_measured_before_the_update(session):
    session.forward(normal(5, 2, 3))
    session.backward(normal(5, 2, 4))
    session.contributions()
    session.update(0.1)
    with pytest.raises(CallOrderError, match=r"contributions\(\) needs backward\(\)"):
        session.contributions()


def test_skipped_cells_of_the_wrong_type_are_named(session):
    with pytest.raises(ValueError, match=r"must be an array of bool .*, got int64 of"):
        session.forward(normal(5, 2, 3), skipped_cells=np.zeros((SHAPE.network.layers, 5), np.int64))
