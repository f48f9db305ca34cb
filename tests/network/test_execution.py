"""What a run chooses of how its network is computed: what is read, what is refused, and the text that stands for it."""

from dataclasses import replace

import pytest

from etalstm.network.architecture import ARCHITECTURES, SWING, Architecture, Division
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage

EVERYTHING = Execution(
    Storage(("ms1", "dense", "ms1-bf16"), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)), 4, DeltaInputs((0.1, (0.2, 0.3), 0.0), 3),
    "bf16",
)  # fmt: skip
SHARING = Execution(shared_tokens=7, slices=2)


@pytest.mark.parametrize(
    ("theta", "policy"), [(0.1, "ms1"), ("0.1", "ms1"), ((0, 0, 0, 0, 0, 0.1), "ms1"), ("0", "dense")]
)
def test_a_threshold_switches_ms1_on_where_no_storage_is_named(theta, policy):
    assert Execution.read(theta=theta).storage.policy == policy
    assert Execution.read(theta=theta).storage == Storage.of(None, Execution.read(theta=theta).storage.thresholds)


@pytest.mark.parametrize("theta", [0.1, "0.1", (0, 0.1, 0, 0, 0, 0)])
@pytest.mark.parametrize("storage", ["dense", ("dense", "dense")])
def test_a_threshold_with_dense_storage_is_refused_with_the_number_that_was_given(storage, theta):
    with pytest.raises(ValueError, match=r"^dense storage prunes nothing: theta must be 0, got 0\.1$"):
        Execution.read(theta=theta, storage=storage)


def test_reads_what_a_user_writes():
    read = Execution.read(
        theta="0.1,0.2,0.3,0.4,0.5,0.6", storage="ms1-bf16", slices=3, input_threshold="0.1/0.2,0.3", refresh=4,
        weight_format="bf16", shared_tokens="off", architecture="dynamic",
    )  # fmt: skip
    storage = Storage("ms1-bf16", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6))
    inputs = DeltaInputs(((0.1, 0.2), 0.3), 4)
    assert read == Execution(storage, 3, inputs, "bf16", None, ARCHITECTURES["dynamic"])
    assert Execution.read() == Execution() and Execution.read(shared_tokens="5").shared_tokens == 5


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"theta": "much"}, "theta must be a number, or one for each of .*, got 'much'"),
        ({"theta": -0.1}, "theta must be finite and at least 0, got -0.1"),
        ({"storage": "zip"}, "storage must be one of dense, ms1, ms1-bf16, got 'zip'"),
        ({"slices": 0}, "slices must be above 0, got 0"),
        ({"slices": 1.5}, "slices must be an integer, got 1.5"),
        ({"input_threshold": 0.1, "refresh": 1}, "input_threshold must be 0, got 0.1"),
        ({"weight_format": "fp8"}, "weight_format must be one of float32, bf16, got 'fp8'"),
        ({"shared_tokens": "some"}, "shared_tokens must be a positive integer, auto or off, got 'some'"),
        ({"shared_tokens": "auto"}, "shared_tokens can be auto only where there are data, got 'auto'"),
        ({"shared_tokens": 5, "input_threshold": 0.1}, "shared_tokens must be off, got 5"),
        ({"shared_tokens": 5, "architecture": "dynamic"}, "architecture dynamic skips no zeros"),
        ({"architecture": "fast"}, "unknown architecture 'fast'"),
        (
            {"architecture": "inference", "theta": 0.1},
            "architecture inference keeps its intermediates dense, not as ms1",
        ),
    ],
)
def test_refuses_what_cannot_be_and_names_it(choices, message):
    with pytest.raises(ValueError, match=message):
        Execution.read(**choices)


@pytest.mark.parametrize(
    ("execution", "message"),
    [
        (Execution(slices=5), "slices must be at most the batch, 4 sequences, got 5"),
        (Execution(Storage(("ms1", "dense"))), "one for each of 3 layers"),
        (Execution(delta_inputs=DeltaInputs((0.1, 0.2), 0)), "one for each of 3 layers, got 2"),
    ],
)
def test_refuses_a_network_that_it_does_not_fit(execution, message):
    EVERYTHING.check(NetworkShape(3, 5, 3), 4)
    with pytest.raises(ValueError, match=message):
        execution.check(NetworkShape(3, 5, 3), 4)


@pytest.mark.parametrize(
    ("choices", "what"),
    [
        ({"delta_inputs": DeltaInputs(0.1, 4)}, "delta inputs"),
        ({"weight_format": "bf16"}, "weights in bf16"),
        ({"shared_tokens": 4}, "shared tokens"),
    ],
)
def test_refuses_a_cell_that_cannot_do_it_yet(choices, what):
    Execution(Storage("ms1", 0.1), slices=2).check(NetworkShape(3, 5, cell="hlstm"), 4)
    with pytest.raises(ValueError, match=f"{what}: only for cell lstm, got cell hlstm"):
        Execution(**choices).check(NetworkShape(3, 5, cell="hlstm"), 4)


def test_some_layers_are_computed_as_all_layers_have_them():
    some = EVERYTHING.of_layers([1, 2])
    assert [some.storage.layer(n) for n in range(2)] == [EVERYTHING.storage.layer(n) for n in (1, 2)]
    assert [some.delta_inputs.layer(n) for n in range(2)] == [EVERYTHING.delta_inputs.layer(n) for n in (1, 2)]
    assert (some.slices, some.weight_format, some.architecture) == (4, "bf16", SWING)
    assert SHARING.of_layers([0]).shared_tokens == 7 and SHARING.of_layers([1]).shared_tokens is None


@pytest.mark.parametrize(
    "execution",
    [
        Execution(),
        EVERYTHING,
        EVERYTHING.of_layers([1]),
        SHARING,
        Execution(architecture=ARCHITECTURES["static"]),
        Execution(architecture=Architecture("mine", Division(20, 9, 3))),
        Execution(delta_inputs=DeltaInputs(0.1, 1)),
    ],
)
def test_the_text_stands_for_all_of_it(execution):
    assert Execution.from_text(execution.text) == execution
    assert replace(execution, slices=3).text != execution.text
    assert Execution().text == "{}"
