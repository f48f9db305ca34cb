"""Learning rates follow their schedules, and are the same float64 on every machine."""

import math

import pytest

from etalstm.train.checkpoint import BestLoss
from etalstm.train.optimizers import Schedule, after_epoch, cosine, power
from etalstm.train.settings import Settings


def rates(iterations, per_epoch, **chosen):
    schedule = Schedule(Settings("digits", learning_rate=1.0, **chosen), iterations)
    return [schedule.rate(n, n // per_epoch) for n in range(iterations)]


def test_powers_and_cosines_are_those_of_the_library_to_some_roundings():
    for exponent in range(40):
        assert power(0.7, exponent) == pytest.approx(0.7**exponent, rel=1e-14)
    for n in range(101):
        assert cosine(math.pi * n / 100) == pytest.approx(math.cos(math.pi * n / 100), abs=1e-15)


def test_step_decays_every_so_many_epochs():
    assert rates(8, 2, decay=0.5) == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    assert rates(8, 2, decay=0.5, step_epochs=2) == [1] * 4 + [0.5] * 4


def test_cosine_falls_from_the_rate_to_the_floor():
    found = rates(5, 2, schedule="cosine", floor=0.2)
    assert found == pytest.approx([0.2 + 0.8 * (1 + math.cos(math.pi * n / 4)) / 2 for n in range(5)])
    assert found[0] == 1 and found[-1] == pytest.approx(0.2)


def test_warmup_rises_in_equal_steps():
    assert rates(6, 6, warmup=4) == [0.25, 0.5, 0.75, 1, 1, 1]


def test_a_plateau_lowers_the_rate_after_its_patience():
    schedule = Schedule(Settings("digits", learning_rate=1.0, schedule="plateau", decay=0.1, patience=1), 100)
    found = []
    for loss in (3, 2, 2.5, 2.5, 2.5, 2.5, 1, 1):
        schedule.end_epoch(loss)
        found.append(schedule.rate(0, 0))
    assert found == pytest.approx([1, 1, 1, 0.1, 0.1, 0.01, 0.01, 0.01])


def test_only_a_lower_loss_is_better():
    watched = BestLoss()
    for loss, epochs in ((2.0, 0), (2.0, 1), (3.0, 2), (1.0, 0)):
        watched = after_epoch(watched, loss)
        assert watched.epochs == epochs
    assert watched.best == 1.0


@pytest.mark.parametrize(
    ("chosen", "message"),
    [({"schedule": "linear"}, "schedule must be one of step, cosine, plateau, got 'linear'"),
     ({"schedule": "plateau"}, "decay must be below 1 with the schedule plateau"),
     ({"warmup": -1}, "warmup must be an integer of at least 0, got -1"),
     ({"floor": 1.5}, "floor must be 0 to 1, got 1.5"), ({"step_epochs": 0}, "step_epochs must be above 0, got 0"),
     ({"optimizer": "sgdm"}, "optimizer must be one of sgd, adam, adamw, got 'sgdm'"),
     ({"beta1": 1.0}, "beta1 must be at least 0 and below 1, got 1.0"), ({"epsilon": 0.0}, "epsilon must be above 0"),
     ({"dropout": 0.5}, "layers must be above 1 with dropout 0.5, got 1"),
     ({"tied": True, "hidden": 8}, "tied weights need embedding = hidden, got 32 and 8"),
     ({"early_stopping": 0}, "early_stopping must be above 0, got 0")],
)  # fmt: skip
def test_what_cannot_be_is_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        Settings("digits", **chosen)
