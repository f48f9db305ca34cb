"""What delta inputs may be told, and what each layer makes of it."""

import numpy as np
import pytest

from etalstm.device.shape import TrainingShape
from etalstm.network.delta_inputs import DeltaInputs, LayerInputs, input_thresholds_text, read_input_thresholds
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape

TENTH, FIFTH = float(np.float32(0.1)), float(np.float32(0.2))


def test_by_default_every_step_is_a_refresh_step():
    assert DeltaInputs().off and DeltaInputs().layer(3) == LayerInputs(0.0, 0.0, 1) and DeltaInputs().layer(0).off
    assert DeltaInputs(0.1, 1).off and not DeltaInputs(0.0, 2).off and not DeltaInputs(0.1, 0).layer(0).off


@pytest.mark.parametrize(
    ("refresh", "expected"), [(1, range(9)), (2, [0, 2, 4, 6, 8]), (4, [0, 4, 8]), (0, [0]), (20, [0])]
)
def test_everything_is_sent_at_multiples_of_the_refresh(refresh, expected):
    inputs = LayerInputs(0.1, 0.1, refresh)
    assert [step for step in range(9) if inputs.refreshes(step)] == list(expected)
    assert np.flatnonzero(inputs.refreshed(9)).tolist() == list(expected)


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        (0.1, [(TENTH, TENTH), (TENTH, TENTH)]),
        ((0.1, 0.2), [(TENTH, TENTH), (FIFTH, FIFTH)]),
        ([(0.1, 0.2), 0], [(TENTH, FIFTH), (0.0, 0.0)]),
        (np.array([[0.1, 0.2], [0.2, 0.1]]), [(TENTH, FIFTH), (FIFTH, TENTH)]),
    ],
    ids=str,
)
def test_thresholds_are_for_all_layers_or_by_layer_and_operand(thresholds, expected):
    inputs = DeltaInputs(thresholds, 4)
    inputs.check_layers(2)
    assert [inputs.layer(n) for n in range(2)] == [LayerInputs(x, h, 4) for x, h in expected]
    hash(inputs)
    assert DeltaInputs(read_input_thresholds(input_thresholds_text(inputs.thresholds)), 4) == inputs


@pytest.mark.parametrize(
    ("text", "thresholds"),
    [("0.1", 0.1), ("0.1,0.2", (0.1, 0.2)), ("0.1/0.2", ((0.1, 0.2),)), ("0.1/0.2,0.1", ((0.1, 0.2), 0.1))],
)
def test_thresholds_are_read_as_they_are_written(text, thresholds):
    assert read_input_thresholds(text) == thresholds
    assert input_thresholds_text(thresholds) == text


@pytest.mark.parametrize(
    ("text", "refresh", "expected"),
    [
        ("0", None, 1),
        ("0.1", None, 0),
        ("0,0/0.1", None, 0),
        ("0,0/0", None, 1),
        ("0.1", 4, 4),
        ("0", 4, 4),
        ("0", 0, 0),
    ],
)
def test_a_threshold_alone_means_no_refresh(text, refresh, expected):
    assert DeltaInputs.read(text, refresh) == DeltaInputs(read_input_thresholds(text), expected)


def test_a_threshold_that_no_step_would_use_is_refused():
    with pytest.raises(ValueError, match=r"with refresh 1 everything is sent: input_threshold must be 0, got 0,0\.1"):
        DeltaInputs.read("0,0.1", 1)


def test_a_layer_alone_has_its_own_thresholds():
    inputs = DeltaInputs((0.1, (0.2, 0.3)), 5)
    for number in range(2):
        inputs.of_layers([number]).check_layers(1)
        assert inputs.of_layers([number]).layer(0) == inputs.layer(number)


@pytest.mark.parametrize("text", ["", "a", "0.1,", "0.1/0.2/0.3", "0.1/", "0.1;0.2"])
def test_other_texts_are_refused_with_what_was_expected(text):
    with pytest.raises(ValueError, match=f"input_threshold must be a number for all layers.*got {text!r}"):
        read_input_thresholds(text)


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf, "0.1", None, True])
@pytest.mark.parametrize("place", ["all", "a layer", "an operand"])
def test_a_threshold_that_is_none_is_refused_by_value(bad, place):
    thresholds = {"all": bad, "a layer": (0.1, bad), "an operand": (0.1, (bad, 0.1))}[place]
    with pytest.raises(ValueError, match=rf"input_threshold must be .*got {bad!r}"):
        DeltaInputs(thresholds, 4)


def test_a_layer_with_three_thresholds_is_refused():
    with pytest.raises(ValueError, match="a pair for x and h, got 3 numbers"):
        DeltaInputs((0.1, (0.1, 0.2, 0.3)), 4)


@pytest.mark.parametrize("refresh", [-1, 1.0, "4", None, True])
def test_a_refresh_that_is_no_count_is_refused_by_value(refresh):
    with pytest.raises(ValueError, match=f"refresh must be an integer of at least 0.*got {refresh!r}"):
        DeltaInputs(0.1, refresh)


def test_a_training_shape_refuses_thresholds_for_other_layers():
    network = NetworkShape(3, 5, 3)
    assert TrainingShape(network, 2, 4).execution.delta_inputs.off
    TrainingShape(network, 2, 4, Execution(delta_inputs=DeltaInputs((0.1, 0.2, 0.3), 4)))
    with pytest.raises(ValueError, match=r"one for each of 3 layers, got 2: 0\.1,0\.2/0\.3"):
        TrainingShape(network, 2, 4, Execution(delta_inputs=DeltaInputs((0.1, (0.2, 0.3)), 4)))
    with pytest.raises(ValueError, match="delta_inputs must be of type DeltaInputs, got float"):
        Execution(delta_inputs=0.1)
