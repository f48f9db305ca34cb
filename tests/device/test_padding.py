"""Steps after a sequence's end: they change no result, and no product is spent on them."""

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.network.shape import NetworkShape, initial_parameters

SHAPE = TrainingShape(NetworkShape(4, 8, 2), batch=3, steps=5, masked=True)


def forward(device, x, lengths, h0):
    session = device.create(SHAPE)
    session.load(initial_parameters(SHAPE.network, 1))
    return session.forward(x, lengths, h0), session.counters()


@pytest.mark.parametrize("lengths", [[5, 5, 5], [1, 5, 2], [1, 1, 1]], ids=str)
def test_no_product_is_spent_on_padding_but_for_the_last_h(lengths):
    generator, steps = np.random.default_rng(2), SHAPE.steps
    x, h0 = (generator.standard_normal(size, np.float32) for size in (SHAPE.x_shape, SHAPE.state_shape))
    with open_device("sim", "test") as device:
        counters = forward(device, x, lengths, h0)[1]
        vectors = 4 * device.accelerator.config.channels  # of a step's rows: 8 units fill the lanes
    scalars = sum(length * (4 + 8) + min(length + 1, steps) * (8 + 8) for length in lengths)  # of x and of h
    empty = 2 * sum(max(steps - length - 1, 0) for length in lengths)  # sums of both layers that got none
    assert counters["channel_cycles"]["mac"] == vectors * (scalars + empty)


def test_what_x_holds_in_padding_is_of_no_effect():
    generator = np.random.default_rng(3)
    x, h0 = (generator.standard_normal(size, np.float32) for size in (SHAPE.x_shape, SHAPE.state_shape))
    lengths = [4, 1, 5]
    other = np.where(np.arange(5)[:, None, None] < np.array(lengths)[None, :, None], x, np.float32(1e30))
    with open_device("sim", "test") as device:
        found = [
            forward(each, values, lengths, h0)[0] for each in (open_device("golden"), device) for values in (x, other)
        ]
    for name in ("y", "h", "c"):
        for outputs in found[1:]:
            np.testing.assert_array_equal(
                getattr(outputs, name).view(np.uint32), getattr(found[0], name).view(np.uint32)
            )
