"""Multiplier and adder are held to integers, which are held to fractions."""

import numpy as np
import pytest

from etalstm_hw.contract import BINARY32
from etalstm_sim.trials.arithmetic import exact as integers
from etalstm_sim.trials.arithmetic import prove_arithmetic as prove


class Fake:
    """Units that compute in integers, and tell one word wrongly."""

    def __init__(self, wrong=None):
        self.wrong = wrong

    def run(self, name, a, b):
        z = prove.UNITS[name][1](a, b)
        return z ^ ((a == self.wrong[1]) & (b == self.wrong[2])) if self.wrong and self.wrong[0] == name else z


@pytest.mark.parametrize("addition", [False, True])
def test_integers_are_right(exact, hard, addition):
    special, (a, b) = prove.special_words(), hard(BINARY32, 2000, seed=3, addition=addition)
    others = np.random.default_rng(5).choice(special, (2, 2000))
    a, b = np.concatenate([a, others[0]]), np.concatenate([b, others[1]])
    reference = exact(BINARY32)
    right = [(reference.add if addition else reference.multiply)(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    assert np.array_equal((integers.totals if addition else integers.products)(a, b), right)


def test_special_words_are_many_and_different():
    words = prove.special_words()
    assert len(set(words.tolist())) == len(words) >= 400
    assert len(prove.special_pairs()[0]) == len(words) ** 2


@pytest.mark.parametrize("unit", prove.UNITS)
def test_random_pairs_reach_every_kind_of_result(unit):
    a, b = prove.random_pairs(np.random.default_rng(1), unit, 60_000)
    size = prove.UNITS[unit][1](a, b) & 0x7FFF_FFFF
    assert (size == 0).sum() > 100 and (size == integers.INFINITY).any()
    assert ((size > 0) & (size < 0x0100_0000)).sum() > 50, "close to the smallest number"


def test_the_hardware_is_right(units):
    told = []
    found = prove.prove_arithmetic(300_000, progress=told.append, units=units)
    assert [(each["unit"], each["differ"], each["first"]) for each in found] == [
        ("multiply", 0, None),
        ("add", 0, None),
    ]
    assert sum(told) == sum(each["special_pairs"] + each["random_pairs"] for each in found)


def test_one_wrong_word_is_found_and_named():
    a, b = 0x3F80_0000, 0x3F80_0001
    multiplied, added = prove.prove_arithmetic(0, units=Fake(("add", a, b)))
    assert multiplied["differ"] == 0
    assert added["differ"] == 1 and added["first"] == (a, b, 0x4000_0001, 0x4000_0000)


def test_numbers_below_zero_are_refused():
    with pytest.raises(ValueError, match="pairs and seed must not be negative, got -1 and 0"):
        prove.prove_arithmetic(-1, units=Fake())
