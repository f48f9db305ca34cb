"""Sessions keep, skip and count what their storage says."""

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.golden import GoldenSession
from etalstm.errors import DeviceError
from etalstm.formats.codec import encode
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage, Usage

OFF = DeltaInputs()
STORED = [("dense", 0.0), ("ms1", 0.1), ("ms1-bf16", 0.1)]


def trained(storage, skipped=None, lengths=None, compensation=1.0):
    session = passed(storage, skipped, lengths)
    session.update(0.1, clip=1.0, compensation=compensation)
    return session


def passed(storage, skipped=None, lengths=None, inputs=OFF):
    """A session that has run forward and backward."""
    network = NetworkShape(6, 40, 2)
    shape = TrainingShape(network, 3, 5, Execution(storage=storage, delta_inputs=inputs), masked=lengths is not None)
    session = open_device("golden").create(shape)
    session.load(initial_parameters(network, 1))
    generator = np.random.default_rng(2)
    session.forward(generator.normal(size=shape.x_shape).astype(np.float32), lengths, skipped_cells=skipped)
    session.backward(generator.normal(size=shape.y_shape).astype(np.float32))
    return session


@pytest.mark.parametrize(("policy", "theta"), STORED)
def test_usage_counts_what_streams_hold(policy, theta):
    session = trained(Storage(policy, theta), lengths=[5, 3, 1])
    for layer, usage in enumerate(session.usage()):
        p = session._passes[layer].intermediates
        words = sum(encode(cell.reshape(-1), 0, policy == "ms1-bf16").size for kind in p for cell in kind)
        assert usage.words == (5 * 5 * 3 * 40 if policy == "dense" else words)
        assert (usage.elements, usage.real, usage.stored) == (5 * 3 * 40, 9 * 40, 9 * 40)
        assert usage.kept == tuple(np.count_nonzero(kind) for kind in p)
        assert usage.delta_kept == np.count_nonzero(session._results[layer].delta)
        assert usage.footprint < usage.real_footprint
        assert usage.backward_multiplications == usage.delta_density <= 1
    total = sum(session.usage(), Usage())
    assert total.cells == 10 and total.skipped == 0 and set(total.summary()["densities"]) == set("ifgosr")
    assert total.footprint == 1 if policy == "dense" else total.footprint < 1


def test_skipped_cells_keep_nothing_and_are_counted():
    skipped = np.array([[1, 1, 0, 0, 0], [1, 0, 0, 0, 1]], bool)
    whole, less = passed(Storage("ms1", 0.1)), passed(Storage("ms1", 0.1), skipped)
    assert [usage.skipped for usage in less.usage()] == [2, 2]
    assert all(a.words < b.words and a.stored == b.stored * 3 // 5 for a, b in zip(less.usage(), whole.usage()))  # noqa: B905
    contributions = less.contributions()
    assert contributions.shape == (2, 5, 3) and not contributions[skipped].any()
    assert not contributions[0, 4].any(), "nothing came down from the skipped cell above"
    assert contributions[0, 2:4].all() and contributions[1, 1:4].all()


def test_usage_counts_what_delta_inputs_broadcast():
    lengths, inputs = np.array([5, 3, 1]), DeltaInputs(((0.5, 0.01), 0.02), 3)
    session, whole = passed(Storage(), lengths=lengths, inputs=inputs), passed(Storage(), lengths=lengths)
    expected = [(9 * width + 6 * 40) / (9 * (width + 40)) for width in (6, 40)]
    assert [usage.input_density for usage in whole.usage()] == expected, "h is 0 at the first step only"
    for layer, usage in enumerate(session.usage()):
        forward, scalars = session._passes[layer], 0
        for sent in (forward.x_sent, forward.h_sent):
            for t, b in zip(*np.nonzero(forward.active), strict=True):
                scalars += np.count_nonzero(sent[t, b] if t in (0, 3) else sent[t, b] - sent[t - 1, b])
        columns = forward.x.shape[2] + 40
        assert usage.products - usage.backward_products == 4 * 40 * scalars
        assert usage.input_density == scalars / (9 * columns) < 0.9 * expected[layer]
    total = sum(session.usage(), Usage())
    first, second = session.usage()
    assert total.summary()["input_density"] == pytest.approx(
        (46 * first.input_density + 80 * second.input_density) / 126
    )


def test_contributions_are_of_what_was_sent():
    session = passed(Storage(), inputs=DeltaInputs(0.2, 0))
    forward, back = session._passes[1], session._results[1]
    product = np.outer(back.delta[2, 1], np.concatenate([forward.x_sent[2, 1], forward.h_sent[2, 1]]))
    assert (forward.x_sent[2, 1] != forward.x[2, 1]).any()
    assert session.contributions()[1, 2, 1] == pytest.approx(np.linalg.norm(product), rel=1e-6)


def test_contributions_are_norms_of_products():
    session = passed(Storage())
    forward, back = session._passes[1], session._results[1]
    product = np.outer(back.delta[2, 1], np.concatenate([forward.x[2, 1], forward.h[2, 1]]))
    assert session.contributions()[1, 2, 1] == pytest.approx(np.linalg.norm(product), rel=1e-6)


def test_compensation_multiplies_the_gradient_before_it_is_clipped():
    before = initial_parameters(NetworkShape(6, 40, 2), 1)[0].weights
    once, twice = (trained(Storage(), compensation=factor) for factor in (1.0, 2.0))
    assert once._norm() > 1, "the gradient must be clipped"
    moved = [np.linalg.norm(s.parameters()[0].weights - before) for s in (once, twice)]
    assert moved[1] == pytest.approx(moved[0], rel=1e-4)
    with pytest.raises(ValueError, match="compensation must be finite and above 0, got 0"):
        trained(Storage(), compensation=0.0)


def test_a_threshold_of_delta_is_refused_where_it_cannot_be():
    session, dy = trained(Storage(("ms1", "dense"), 0.1)), np.ones((5, 3, 40), np.float32)
    session.forward(np.ones((5, 3, 6), np.float32))
    for value, message in ((-0.1, "at least 0, got -0.1"), (float("nan"), "got nan"), (0.1, "layer 1 is dense")):
        with pytest.raises(ValueError, match=message):
            session.backward(dy, delta_threshold=value)
    session.backward(dy)  # the forward pass is still there


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Storage("ms2"), "storage must be one of dense, ms1, ms1-bf16, got 'ms2'"),
        (lambda: Storage("ms1", -0.1), "theta must be finite and at least 0, got -0.1"),
        (lambda: Storage("ms1", float("nan")), "got nan"),
        (lambda: Storage("ms1", (0.1, 0.2)), "one for each of i, f, g, o, s, r, got 2"),
        (lambda: Storage("dense", 0.1), "dense storage prunes nothing"),
        (
            lambda: TrainingShape(NetworkShape(1, 1, 2), 1, 1, Execution(storage=Storage(("ms1",)))),
            "one for each of 2 layers",
        ),
        (
            lambda: TrainingShape(NetworkShape(1, 1), 1, 1, Execution(storage="ms1")),
            "storage must be of type Storage, got str",
        ),
        (lambda: trained(Storage(), np.zeros((2, 4), bool)), r"array of bool of shape \(2, 5\), got bool of \(2, 4\)"),
        (lambda: trained(Storage(), np.zeros((2, 5))), "array of bool"),
    ],
)
def test_storage_that_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_layers_have_policies_of_their_own():
    storage = Storage(("dense", "ms1"), (0.1, 0, 0, 0, 0, 0.5))
    assert not storage.layer(0).compressed and not any(storage.layer(0).thresholds)
    assert storage.layer(1).thresholds[5] == 0.5
    session = trained(storage)
    assert [usage.footprint == 1 for usage in session.usage()] == [True, False]


def test_a_device_without_compression_says_so():
    class Plain(GoldenSession):
        reduces = False

    network = NetworkShape(2, 3)
    with pytest.raises(DeviceError, match="dense, not as ms1"):
        Plain(TrainingShape(network, 1, 2, Execution(storage=Storage("ms1"))))
    session = Plain(TrainingShape(network, 1, 2))
    session.load(initial_parameters(network, 0))
    with pytest.raises(DeviceError, match="skips no cells"):
        session.forward(np.zeros((2, 1, 2), np.float32), skipped_cells=np.ones((1, 2), bool))
