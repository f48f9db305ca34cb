import numpy as np
import pytest

from etalstm.golden import activation
from etalstm_sim.trials.arithmetic.prove import STRIDE, prove_activation


class Fake:
    """Units whose activation is a function of words."""

    def __init__(self, activation):
        self.activation = activation

    def run(self, name, a, b):
        return self.activation(a)


def golden(words):
    return activation.tanh(words.view(np.float32)).view(np.uint32)


def test_finds_nothing_wrong_with_equal_words():
    result = prove_activation("tanh", chunk=30_000, limit=100_000, units=Fake(golden))
    assert result["mismatches"] == result["violations"] == 0
    assert 0.1 < result["max_ulp"] <= 2 and 0 < result["max_relative"] <= 2**-20
    assert not result["proven"], "a part of the words is no proof"


def test_finds_a_single_wrong_bit_and_says_where():
    word = 70_000 * int(STRIDE) % 2**32
    result = prove_activation(
        "tanh", chunk=30_000, limit=100_000, units=Fake(lambda words: golden(words) ^ (words == word).astype(np.uint32))
    )
    expected = int(golden(np.array([word], np.uint32))[0])
    assert result["mismatches"] == 1
    assert result["first_mismatch"] == (word, expected ^ 1, expected)


def test_judges_the_golden_model_too(monkeypatch):
    # A tangent in place of the sigmoid, in hardware and golden model alike.
    monkeypatch.setattr(activation, "sigmoid", activation.tanh)
    result = prove_activation("sigmoid", limit=10_000, units=Fake(golden))
    assert result["mismatches"] == 0 and result["violations"] > 1000


def test_reports_progress():
    seen = []
    prove_activation("tanh", chunk=400, limit=1000, units=Fake(golden), progress=lambda *step: seen.append(step))
    assert seen == [(400, 1000), (800, 1000), (1000, 1000)]


@pytest.mark.parametrize(("function", "limit"), [("relu", 1), ("tanh", 0), ("tanh", 2**32 + 1)])
def test_refuses_what_it_cannot_prove(function, limit):
    with pytest.raises(ValueError):
        prove_activation(function, limit=limit, units=Fake(golden))
