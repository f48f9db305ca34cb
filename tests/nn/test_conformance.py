"""Cases that PyTorch's authors wrote for ``torch.nn.LSTM``, run on ``etalstm.nn.LSTM``."""

import warnings

import pytest
import torch
from torch.testing._internal.common_modules import (
    ModuleErrorEnum,
    module_error_inputs_torch_nn_RNN_GRU,
    module_inputs_torch_nn_LSTM,
    module_inputs_torch_nn_RNN_GRU,
)

import etalstm.nn
from etalstm.nn.engine import FLOAT64
from tests.nn.parity import assert_close, run

ENGINES = {"golden": torch.float32, FLOAT64: torch.float64}


def cases_of(inputs, **options):
    return [
        pytest.param(engine, dtype, case, id=f"{engine}-{number}")
        for engine, dtype in ENGINES.items()
        for number, case in enumerate(inputs(None, "cpu", dtype, requires_grad=False, training=False, **options))
    ]


def made(case, dtype, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        arguments = case.constructor_input
        return etalstm.nn.LSTM(*arguments.args, **{"dtype": dtype} | arguments.kwargs, **options)


@pytest.mark.filterwarnings("ignore:an LSTM with proj_size", "ignore:LSTM with projections is not")
@pytest.mark.parametrize(("engine", "dtype", "case"), cases_of(module_inputs_torch_nn_LSTM))
class TestModuleInputs:
    def test_is_what_torch_gives(self, engine, dtype, case):
        network = made(case, dtype, engine=engine)
        assert_close(run(network, *case.forward_input.args), run(network.to_stock(), *case.forward_input.args))

    def test_without_a_batch_is_a_batch_of_one(self, engine, dtype, case):
        network = made(case, dtype, engine=engine)
        expected = case.reference_fn(network, *case.forward_input.args)
        torch.testing.assert_close(network(*case.forward_input.args), expected)


@pytest.mark.parametrize(
    ("engine", "dtype", "case"),
    cases_of(module_inputs_torch_nn_RNN_GRU, is_rnn=False, with_packed_sequence=True),
)
def test_packed_sequences_and_layouts_of_the_other_recurrent_modules(engine, dtype, case):
    network, (x, *states) = made(case, dtype, engine=engine), case.forward_input.args
    states = (states[0], states[0]) if states else None
    assert_close(run(network, x, states), run(network.to_stock(), x, states))


@pytest.mark.parametrize(("engine", "dtype", "case"), cases_of(module_error_inputs_torch_nn_RNN_GRU))
def test_errors_are_those_of_torch(engine, dtype, case):
    if case.error_on is ModuleErrorEnum.CONSTRUCTION_ERROR:
        with pytest.raises(case.error_type, match=case.error_regex):
            made(case.module_error_input, dtype, engine=engine)
        return
    network = made(case.module_error_input, dtype, engine=engine)
    with pytest.raises(case.error_type, match=case.error_regex):
        network(*case.module_error_input.forward_input.args)
