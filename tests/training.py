"""The same random training run on a device and on golden, compared word by word."""

import numpy as np

from etalstm.device import open_device
from etalstm.network import initial_parameters


def assert_same_words(name, actual, expected):
    a, e = (np.ascontiguousarray(array, np.float32).view(np.uint32).ravel() for array in (actual, expected))
    different = np.flatnonzero(a != e)
    first = different[0] if different.size else 0
    assert not different.size, (
        f"{name}: {different.size} of {e.size} words differ, first at {first}: "
        f"{a[first]:#010x}, expected {e[first]:#010x}"
    )


def run(session, shape, iterations, seed):
    """Every tensor of a training run, as (name, array) pairs."""
    rng = np.random.default_rng(seed)
    session.load(initial_parameters(shape.network, seed))

    def draw(size, density=1.0):
        values = rng.standard_normal(size).astype(np.float32)
        return np.where(rng.random(size) < density, values, np.float32(0)).astype(np.float32)

    for n in range(iterations):
        lengths = rng.integers(1, shape.steps + 1, shape.batch) if shape.masked else None
        h0, c0 = (draw(shape.state_shape) for _ in range(2)) if n else (None, None)
        outputs = session.forward(draw(shape.x_shape, 0.7), lengths, h0, c0)
        for name in ("y", "h", "c"):
            yield f"iteration {n} {name}", getattr(outputs, name)
        dh, dc = (draw(shape.state_shape, 0.5) for _ in range(2)) if n else (None, None)
        back = session.backward(draw(shape.y_shape, 0.5), dh, dc)
        for name in ("dx", "dh0", "dc0"):
            yield f"iteration {n} {name}", getattr(back, name)
        yield f"iteration {n} norm", np.array([back.norm], np.float32)
        for layer, gradient in enumerate(session.gradients()):
            yield f"iteration {n} dW of layer {layer}", gradient.weights
            yield f"iteration {n} db of layer {layer}", gradient.bias
        session.update(0.1, momentum=0.9, clip=1.0, weight_decay=0.01)
        for layer, (w, v) in enumerate(zip(session.parameters(), session.velocities(), strict=True)):
            yield f"iteration {n} weights of layer {layer}", w.weights
            yield f"iteration {n} bias of layer {layer}", w.bias
            yield f"iteration {n} velocity of layer {layer}", v.weights


def assert_same_training(device, shape, iterations, seed):
    golden = run(open_device("golden").create(shape), shape, iterations, seed)
    for (name, actual), (_, expected) in zip(run(device.create(shape), shape, iterations, seed), golden, strict=True):
        assert_same_words(name, actual, expected)
