"""PyTorch's transforms of the modules: each gives the right numbers or is refused, as docs/pytorch.md says."""

from pathlib import Path

import pytest
import torch
from torch import func
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import etalstm.nn
from etalstm.nn.operators import lstm_layer
from tests.nn.test_operators import STEPS, rest, tensors
from tests.nn.transforms import TRANSFORMS, WAYS, outcome

PAGE = Path(__file__).parents[2] / "docs" / "pytorch.md"


def rows_of_page() -> dict[str, dict[str, str]]:
    """Read the page's table: by transform and way, what becomes of it."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| transform |"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    names, _, *rows = rows
    return {row[0]: dict(zip(names[1:], row[1:], strict=True)) for row in rows}


def test_the_page_has_every_transform():
    assert {name: [*row] for name, row in rows_of_page().items()} == {name: [*WAYS] for name in TRANSFORMS}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_does_what_the_page_says(name, way):
    """After a change: ``python -m tests.nn.transforms`` prints the page's table."""
    assert outcome(name, way) == rows_of_page()[name][way]


def test_what_is_refused_is_named():
    network, x = etalstm.nn.LSTM(3, 4), torch.randn(2, 1, 3)
    with pytest.raises(NotImplementedError, match=r"forward-mode differentiation .*\(torch\.func\.jvp"):
        func.jvp(lambda x: network(x)[0], (x,), (x,))


def test_an_operator_that_is_called_by_itself_keeps_no_tangent():
    x, *others = (tensor.detach() for tensor in tensors(torch.float32))
    with pytest.raises(NotImplementedError, match="forward-mode"):
        func.jvp(lambda x: lstm_layer(x, *others, *rest("golden"))[0], (x,), (x,))


@pytest.mark.parametrize("lengths", [None, [4, 2, 1]])
def test_layers_directions_and_packed_sequences_have_stocks_gradients(lengths):
    torch.manual_seed(1)
    network = etalstm.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(STEPS, 3, 3)
    packed = lengths and pack_padded_sequence(x, lengths)

    def loss(module, data):
        given = data if packed is None else PackedSequence(data, packed.batch_sizes)
        y, (h, c) = module(given)
        y = y.data if packed else y
        return y.square().sum() + h.sin().sum() + c.cos().sum()

    data = packed.data if packed else x
    stock = network.to_stock().double()
    wanted = torch.autograd.functional.jacobian(lambda data: loss(stock, data), data.double())
    torch.testing.assert_close(func.grad(lambda data: loss(network, data))(data), wanted.float())


def test_a_pass_that_waits_for_its_way_back_is_not_taken_for_a_transformed_one():
    """Passes of other entries run on the same session in between."""
    torch.manual_seed(2)
    network = etalstm.nn.LSTM(3, 4)
    x, others = torch.randn(STEPS, 2, 3, requires_grad=True), torch.randn(5, STEPS, 2, 3)
    waiting = network(x)[0].square().sum()
    gradients = func.vmap(func.grad(lambda one: network(one)[0].square().sum()))(others)
    (last,) = torch.autograd.grad(waiting, x)
    for one, got in zip([x.detach(), *others], [last, *gradients], strict=True):
        one = one.clone().requires_grad_()
        assert torch.equal(torch.autograd.grad(network(one)[0].square().sum(), one)[0], got)
