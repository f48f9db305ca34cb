"""What is told of a model is what was done with it; the model is afterwards as it was."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import etalstm.nn
from etalstm.nn.pool import LayerSession
from etalstm.nn.recompute import recompute
from etalstm.research.translate.attention import AdditiveAttention

LENGTHS = [6, 5, 3, 2]


class Model(nn.Module):
    """Two packed layers, a function whose maps are computed again, a padded layer, a norm of the batch."""

    def __init__(self, engine="golden"):
        super().__init__()
        torch.manual_seed(0)
        self.below = etalstm.nn.LSTM(8, 16, 2, storage="ms1", theta=0.05, dropout=0.5)
        self.above = etalstm.nn.LSTM(16, 8, engine=engine, slices=2)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        """Give what the last step gives."""
        y, _ = self.below(pack_padded_sequence(x, LENGTHS))
        y = recompute(torch.tanh, pad_packed_sequence(y)[0], mode="on")
        return self.norm(self.above(y)[0][-1])


def test_each_layer_is_told_in_order_with_what_it_saves():
    told = etalstm.nn.explain(Model(), (6, 4, 8))
    assert [name for name, _ in told.layers] == ["below", "below", "above"]
    below, second, above = (done for _, done in told.layers)
    assert (below.steps, below.shape.batch, below.shape.network.input_size, second.shape.network.input_size) == (
        6, 4, 8, 16,
    )  # fmt: skip
    assert below.usage.real / below.usage.elements == sum(LENGTHS) / 24
    assert 0 < below.usage.footprint < 1 and below.usage.multiplications < 1
    assert (above.usage.footprint, above.usage.real, above.shape.execution.slices) == (1, above.usage.elements, 2)
    assert (above.device, above.groups, above.memory_bytes) == ("golden", None, 0)
    assert [(made.function, made.again) for made in told.maps] == [("tanh", True)]
    lines = str(told).splitlines()
    assert lines[1].split()[0] == "below" and "33.3%" in lines[1] and "ms1" in lines[1]
    assert lines[3].split()[0] == "above" and "(100%)" in lines[3]
    assert lines[-2].split() == ["tanh", "1", "computed", "again", "-", "-"]
    assert lines[-1].startswith("bytes: of the maps")


def test_a_machine_is_told_with_its_memory():
    (_, done), *_ = reversed(etalstm.nn.explain(Model("sim"), (6, 4, 8)).layers)
    assert done.device == "sim" and done.groups == 1 and done.memory_bytes > 0


def test_what_a_cost_rule_decides_is_told():
    attention = AdditiveAttention(8)
    told = etalstm.nn.explain(attention, (2, 3, 8), (2, 5, 8), torch.zeros(2, 5, dtype=torch.bool))
    assert told.layers == [] and told.maps
    assert all(not made.again and made.cost.kept_bytes > 0 for made in told.maps)  # small ones are kept
    assert f"{told.maps[0].cost.kept_bytes:,}" in str(told)


def test_the_groups_of_an_attention_are_one_row():
    attention = AdditiveAttention(256)
    told = etalstm.nn.explain(attention, (4, 30, 256), (4, 30, 256), torch.zeros(4, 30, dtype=torch.bool))
    whole = attention.cost(4, 30, 30)
    row = str(told).splitlines()[1].split()
    assert row == ["additive", "4", "computed", "again", f"{whole.kept_bytes:,}", f"{whole.repeated_flops:,.0f}"]


def test_layers_of_an_hlstm_are_named():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.gated = etalstm.nn.HLSTM(3, 5, 2)

        def forward(self, x):
            return self.gated(x)[0]

    told = etalstm.nn.explain(Named(), (4, 2, 3))
    assert [name for name, _ in told.layers] == ["gated", "gated"]


def test_the_model_and_the_generator_are_as_they_were():
    model = Model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(5)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    etalstm.nn.explain(model, (6, 4, 8))
    assert torch.equal(torch.rand(3), drawn)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.below._forward_hooks and not model.below._forward_pre_hooks


def test_nobody_counts_when_nobody_asks(monkeypatch):
    monkeypatch.setattr(LayerSession, "_pass_note", lambda self: pytest.fail("counted"))
    model = Model()
    model(torch.randn(6, 4, 8)).sum().backward()


def test_inputs_with_gradients_and_no_parameters_suffice():
    told = etalstm.nn.explain(Model().requires_grad_(False), torch.randn(6, 4, 8, requires_grad=True))
    assert len(told.layers) == 3


def test_a_model_without_a_device_has_nothing_to_tell():
    assert str(etalstm.nn.explain(nn.Linear(3, 2), (4, 3))).startswith("nothing of this model runs on a device")


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(TypeError, match=r"module must be a torch.nn.Module, got function"):
        etalstm.nn.explain(lambda x: x, (2, 3))
    with pytest.raises(ValueError, match="no tensor with a gradient"):
        etalstm.nn.explain(nn.Linear(3, 2).requires_grad_(False), (2, 3))
