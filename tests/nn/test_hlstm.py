"""``etalstm.nn.HLSTM`` has the results and gradients of its equations in plain PyTorch, on every engine."""

import copy
import pickle

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import etalstm.nn
from tests.nn.parity import assert_close, run

INPUTS, UNITS, LAYERS, STEPS, BATCH = 3, 5, 2, 6, 4
LENGTHS = [3, 6, 1, 4]


class Plain(torch.nn.Module):
    """The equations, step by step, in float64, with the parameters of an HLSTM."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, states=None):
        lengths = [len(x)] * x.shape[1] if isinstance(x, torch.Tensor) else LENGTHS
        packed, x = x, (x if isinstance(x, torch.Tensor) else pad_packed_sequence(x)[0]).double()
        h, c = states or torch.zeros(2, LAYERS, x.shape[1], UNITS)
        last = []
        for layer in range(LAYERS):
            x, *state = self.layer(layer, x, h[layer].double(), c[layer].double(), torch.tensor(lengths))
            last.append(state)
        h, c = (torch.stack(states).float() for states in zip(*last, strict=True))
        y = x.float()
        if isinstance(packed, PackedSequence):
            y = pack_padded_sequence(y, lengths, enforce_sorted=False)
        return y, (h, c)

    def layer(self, layer, x, h, c, lengths):
        names = ("weight_ih", "weight_hh", "bias_hidden", "weight_gates", "bias_gates")
        w_ih, w_hh, a, w, b = (getattr(self.network, f"{name}_l{layer}").double() for name in names)
        outputs = []
        for t, x_t in enumerate(x):
            hidden = torch.relu(x_t @ w_ih.T + h @ w_hh.T + a).chunk(4, dim=1)
            z = [v @ w_n.T + b_n for v, w_n, b_n in zip(hidden, w.chunk(4), b.chunk(4), strict=True)]
            i, f, g, o = torch.sigmoid(z[0]), torch.sigmoid(z[1]), torch.tanh(z[2]), torch.sigmoid(z[3])
            live = (t < lengths)[:, None]
            c = torch.where(live, f * c + i * g, c)
            h = torch.where(live, o * torch.tanh(c), h)
            outputs.append(h * live)
        return torch.stack(outputs), h, c


def network_of(**options):
    torch.manual_seed(1)
    return etalstm.nn.HLSTM(INPUTS, UNITS, LAYERS, **options)


def plain_run(network, x, states):
    found = run(Plain(network), x, states)
    return {name.removeprefix("network."): tensor for name, tensor in found.items()}


def sequences():
    torch.manual_seed(2)
    return torch.randn(STEPS, BATCH, INPUTS)


def states_of():
    torch.manual_seed(3)
    return tuple(torch.randn(2, LAYERS, BATCH, UNITS))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("with_states", [False, True])
def test_results_and_gradients_are_those_of_the_equations(packed, with_states):
    network, x, states = network_of(), sequences(), states_of() if with_states else None
    x = pack_padded_sequence(x, LENGTHS, enforce_sorted=False) if packed else x
    assert_close(run(network, x, states), plain_run(network, x, states))


def test_batches_may_come_first():
    network, x = network_of(), sequences()
    y, (h, _) = network(x)
    network.batch_first = True
    turned, (again, _) = network(x.transpose(0, 1))
    assert torch.equal(turned.transpose(0, 1), y) and torch.equal(again, h)


@pytest.mark.parametrize("storage", ["dense", "ms1", "ms1-bf16"])
def test_engines_give_the_same_bits(storage):
    x = pack_padded_sequence(sequences(), LENGTHS, enforce_sorted=False)
    golden, sim = (run(network_of(engine=engine, storage=storage), x, states_of()) for engine in ("golden", "sim"))
    for name, tensor in golden.items():
        assert torch.equal(tensor, sim[name]), name


def test_a_pass_goes_back_after_another_one_began():
    network, x = network_of(), sequences().requires_grad_()
    first = network(x)[0].square().sum()
    network(x * 2)
    first.backward()
    found = x.grad.clone()
    x.grad = None
    network(x)[0].square().sum().backward()
    assert torch.equal(found, x.grad)


def test_dropout_between_layers_is_drawn_in_training_only():
    network, x = network_of(dropout=0.5), sequences()
    torch.manual_seed(4)
    dropped = network(x)[0]
    assert not torch.equal(dropped, network(x)[0])
    network.eval()
    assert torch.equal(network(x)[0], network_of()(x)[0])


def test_copies_and_pickles_give_the_same():
    network, x = network_of(), sequences()
    expected = network(x)[0]
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert torch.equal(other(x)[0], expected)


def test_an_optimizer_of_torch_trains_it():
    network, x = network_of(), sequences()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = (network(x)[0] - 0.25).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: etalstm.nn.HLSTM(3, 5, dropout=2), "dropout must be 0 to 1"),
        (lambda: etalstm.nn.HLSTM(3, 0), "hidden_size must be above 0"),
        (lambda: etalstm.nn.HLSTM(3, 5, storage="dense", theta=0.1), "dense storage prunes nothing"),
        (lambda: network_of()(torch.zeros(4, 3)), r"must be \(T, B, I\).*\(4, 3\)"),
        (lambda: network_of()(torch.zeros(4, 2, 7)), "must have 3 elements for each step, got 7"),
        (lambda: network_of()(torch.zeros(0, 2, 3)), "at least one step"),
        (lambda: network_of()(sequences(), (torch.zeros(2, 4, 5), torch.zeros(1, 4, 5))), "c0 must have shape"),
        (lambda: network_of()(sequences().double()), "got the input in torch.float64"),
        (lambda: network_of(engine="float64").double()(sequences().double()), "float64 computes cell lstm only"),
    ],
)
def test_refuses_what_it_cannot_do_and_names_it(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_refuses_gradients_of_gradients():
    network, x = network_of(), sequences().requires_grad_()
    (gradient,) = torch.autograd.grad(network(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="HLSTM has no gradients of gradients"):
        gradient.sum().backward()
