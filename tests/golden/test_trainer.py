"""Layers are joined, and updated, in the order the design fixes."""

import numpy as np
import pytest

from etalstm.golden import reference
from etalstm.golden.arithmetic import add, multiply
from etalstm.golden.fast import compiled
from etalstm.golden.fast.compiled import descend
from etalstm.golden.trainer import Rows, network_backward, network_forward
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.update_rule import UpdateRule


@pytest.mark.parametrize("shape", [NetworkShape(3, 5, 1), NetworkShape(4, 6, 3)])
def test_both_engines_train_a_network_to_the_same_bits(shape):
    generator = np.random.default_rng(1)
    layers = [Rows.of(entry) for entry in initial_parameters(shape, 2)]
    x = generator.normal(size=(4, 3, shape.input_size)).astype(np.float32)
    h0, c0, dh, dc = generator.normal(size=(4, shape.layers, 3, shape.hidden_size)).astype(np.float32)
    dy = generator.normal(size=(4, 3, shape.hidden_size)).astype(np.float32)
    results = []
    for engine in (reference, compiled):
        passes = network_forward(layers, x, np.array([4, 2, 1]), h0, c0, engine)
        results.append((passes, network_backward(layers, passes, dy, dh, dc, engine)))
    for expected, actual in zip(*results, strict=True):
        for layer in range(shape.layers):
            for name, array in vars(expected[layer]).items():
                assert np.array_equal(vars(actual[layer])[name], array), f"layer {layer}, {name}"


def test_a_layer_reads_the_one_below_and_sends_its_dx_down():
    shape = NetworkShape(3, 4, 2)
    generator = np.random.default_rng(1)
    layers = [Rows.of(entry) for entry in initial_parameters(shape, 2)]
    x = generator.normal(size=(3, 2, 3)).astype(np.float32)
    state = np.zeros((2, 2, 4), np.float32)
    dy = generator.normal(size=(3, 2, 4)).astype(np.float32)
    passes = network_forward(layers, x, np.array([3, 1]), state, state)
    assert np.array_equal(passes[1].x, passes[0].y)
    below = network_backward(layers, passes, dy, state, state)
    alone = compiled.layer_backward(layers[0].weights, passes[0], below[1].dx, state[0], state[0])
    assert np.array_equal(below[0].weights, alone.weights)


def test_rows_come_back_in_the_order_they_were_given():
    parameters = initial_parameters(NetworkShape(3, 4, 1), 2)[0]
    back = Rows.of(parameters).parameters()
    assert np.array_equal(back.weights, parameters.weights)
    assert np.array_equal(back.bias, parameters.bias)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_update_rounds_every_product_and_sum(momentum, scale, decay):
    generator = np.random.default_rng(7)
    w, v, g = generator.normal(size=(3, 50)).astype(np.float32)
    v[0], g[0], w[1], g[2], w[3], v[3] = (
        -0.0,
        -0.0,
        2e-38,
        1e-40,
        1e-39,
        np.nan,
    )  # zeros of both signs, an underflow, what the machine has not
    rule = UpdateRule(0.1, momentum, decay, scale)
    moved, speed = descend(w, v, g, rule, rule.weight_decay)
    expected = reference.descend(w, v, g, rule, rule.weight_decay)
    assert all(
        np.array_equal(a.view(np.uint32), b.view(np.uint32)) for a, b in zip((moved, speed), expected, strict=True)
    )
    for n in range(50):
        first = multiply(rule.scale, g[n])
        second = add(first, multiply(rule.weight_decay, w[n]))
        third = add(multiply(rule.momentum, v[n]), second)
        fourth = add(w[n], -multiply(rule.learning_rate, third))
        got = (moved[n].view(np.uint32), speed[n].view(np.uint32))
        assert got == (fourth.view(np.uint32), third.view(np.uint32)), f"element {n}"
