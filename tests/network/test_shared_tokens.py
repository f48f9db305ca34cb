"""The distinct tokens of a batch, the reference that goes on from their sums, and what is refused."""

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.golden import product, reference
from etalstm.golden.fast import compiled
from etalstm.network.architecture import ARCHITECTURES
from etalstm.network.delta_inputs import OFF, DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.shared_tokens import SharedTokens
from tests.training import with_changes

TOKENS = np.array([[7, 3, 7], [3, 9, 5], [7, 7, 0]])
ACTIVE = np.array([[1, 1, 1], [1, 1, 1], [1, 0, 1]], bool)
SHAPE = TrainingShape(NetworkShape(2, 3), 3, 3, Execution(shared_tokens=5), masked=True)
LENGTHS = [3, 2, 3]


def vectors(tokens, size=2):
    return np.random.default_rng(0).standard_normal((10, size), np.float32)[tokens]


def test_finds_each_token_once():
    x = vectors(TOKENS)
    x[2, 1] = 99  # padding may be anything
    shared = SharedTokens.of(TOKENS, x, ACTIVE)
    assert shared.numbers.tolist() == [[3, 1, 3], [1, 4, 2], [3, -1, 0]]
    np.testing.assert_array_equal(shared.x, vectors(np.array([0, 3, 5, 7, 9])))
    assert (shared.count, shared.scalars, shared.scalars_unshared) == (5, 10 + 8, 16)
    part = shared.of_sequences(np.array([2, -1]))
    assert part.numbers.tolist() == [[2, -1], [1, -1], [0, -1]]
    np.testing.assert_array_equal(part.x, vectors(np.array([0, 5, 7])))


def test_a_sum_goes_on_from_that_of_its_token():
    """Scalar by scalar: the bias, then x, each addition rounded, as without sharing."""
    generator = np.random.default_rng(1)
    weights, bias = generator.standard_normal((12, 5), np.float32), generator.standard_normal(12, np.float32)
    x, h0 = vectors(TOKENS), generator.standard_normal((3, 3), np.float32)
    shared = SharedTokens.of(TOKENS, x, ACTIVE)
    z = np.empty((shared.count, 12), np.float32)
    for token, row in np.ndindex(z.shape):
        z[token, row] = bias[row]
        for k in range(2):
            z[token, row] += np.float32(weights[row, k] * shared.x[token, k])
    sums = product.GateSums(product.FloatProduct(weights, bias), OFF, ACTIVE, 2, shared)
    for t in range(3):
        states = generator.standard_normal((3, 3), np.float32)
        found, _ = sums.step(t, np.concatenate([x[t], states], axis=1))
        for b in range(3):
            wanted = z[shared.numbers[t, b]].copy()
            for k in range(3):
                wanted += weights[:, 2 + k] * states[b, k]
            np.testing.assert_array_equal(found[b], wanted)
    for engine in (reference, compiled):
        given = weights, bias, x, h0, h0, ACTIVE
        plain, sharing = engine.layer_forward(*given), engine.layer_forward(*given, shared=shared)
        for name in ("h", "c", "kept"):
            np.testing.assert_array_equal(getattr(sharing, name), getattr(plain, name), name)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (None, r"with shared_tokens there must be tokens of shape \(3, 3\), got none"),
        (TOKENS.astype(np.float32), r"tokens must be integers of shape \(3, 3\), got float32 of shape \(3, 3\)"),
        (TOKENS[:2], r"tokens must be integers of shape \(3, 3\), got int64 of shape \(2, 3\)"),
        (np.zeros((3, 3), int), r"equal tokens must have equal x: that of token 0 differs at \[0, 1\]"),
    ],
)
def test_refuses_tokens_that_are_not_those_of_x(tokens, message):
    session = open_device("golden").create(SHAPE)
    session.load(initial_parameters(SHAPE.network, 0))
    with pytest.raises(ValueError, match=message):
        session.forward(vectors(TOKENS), LENGTHS, tokens=tokens)


def test_refuses_tokens_where_none_are_shared():
    session = open_device("golden").create(SHAPE.with_execution(shared_tokens=None))
    session.load(initial_parameters(SHAPE.network, 0))
    with pytest.raises(ValueError, match="tokens were given to a session whose TrainingShape has no shared_tokens"):
        session.forward(vectors(TOKENS), LENGTHS, tokens=TOKENS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shared_tokens": 0}, "shared_tokens must be .*, got 0"),
        ({"shared_tokens": 2.5}, "shared_tokens must be .*, got 2.5"),
        (
            {"delta_inputs": DeltaInputs(0.1, 0)},
            "with delta inputs .*: shared_tokens must be off, got 5",
        ),
        (
            {"architecture": ARCHITECTURES["dynamic"]},
            "architecture dynamic skips no zeros: shared_tokens must be off, got 5",
        ),
    ],
)
def test_refuses_shapes_that_cannot_share(options, message):
    with pytest.raises(ValueError, match=message):
        with_changes(SHAPE, **options)


def test_a_session_that_shares_sends_no_changes():
    session = open_device("golden").create(SHAPE)
    with pytest.raises(ValueError, match="shared_tokens must be off"):
        session.send_as(DeltaInputs(0.1, 0))
    session.send_as(DeltaInputs(0.3, 1))
