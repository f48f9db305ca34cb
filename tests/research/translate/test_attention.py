import pytest
import torch

from etalstm.nn import explain, recompute
from etalstm.nn.recompute import Rule
from etalstm.research.reduced.compression import kept_tensors, storage_bytes
from etalstm.research.translate import attention
from etalstm.research.translate.attention import AdditiveAttention, DotAttention, attention_of
from tests.nn.parity import DEVICES

B, T, S, H = 5, 3, 4, 6


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    padding = torch.zeros(B, S, dtype=torch.bool)
    padding[1, 2:] = True
    return torch.randn(B, T, H), torch.randn(B, S, H), padding


def expected(scores, keys, padding):
    return scores.masked_fill(padding[:, None], -torch.inf).softmax(2) @ keys


def in_groups(monkeypatch, group_bytes):
    """Have groups of so many bytes on every device."""
    for name in ("HOST_CHUNK_BYTES", "GPU_CHUNK_BYTES"):
        monkeypatch.setattr(attention, name, group_bytes)


@pytest.mark.parametrize("group_bytes", [1, 2 * 4 * T * S * 7, 1 << 20])
def test_additive_attention_is_bahdanaus(group_bytes, inputs, monkeypatch):
    in_groups(monkeypatch, group_bytes)
    queries, keys, padding = inputs
    module = AdditiveAttention(H, 7)
    scores = torch.tanh(module.query(queries)[:, :, None] + module.key(keys)[:, None]) @ module.value
    torch.testing.assert_close(module(*inputs), expected(scores, keys, padding), rtol=1e-5, atol=1e-6)


def test_dot_attention_is_luongs(inputs):
    queries, keys, padding = inputs
    scores = torch.einsum("bth,bsh->bts", queries, keys)
    torch.testing.assert_close(DotAttention()(*inputs), expected(scores, keys, padding))


@pytest.mark.parametrize("kind", attention.KINDS)
def test_padding_has_no_weight(kind, inputs):
    queries, keys, padding = inputs
    module = attention_of(kind, H)
    other = keys.clone()
    other[1, 2:] = 99.0
    assert torch.equal(module(queries, keys, padding), module(queries, other, padding))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("group_bytes", [1, 1 << 27])
@pytest.mark.parametrize("kind", attention.KINDS)
def test_maps_computed_again_give_the_same_bits(kind, group_bytes, device, inputs, monkeypatch):
    in_groups(monkeypatch, group_bytes)
    queries, keys, padding = (tensor.to(device) for tensor in inputs)
    found = []
    for mode in ("off", "on"):
        torch.manual_seed(1)
        module = attention_of(kind, H, mode).to(device)
        leaves = [queries.clone().requires_grad_(), keys.clone().requires_grad_()]
        y = module(*leaves, padding)
        y.square().sum().backward()
        found.append([y, *(tensor.grad for tensor in (*leaves, *module.parameters()))])
    for number, (kept, again) in enumerate(zip(*found, strict=True)):
        assert torch.equal(kept, again), f"tensor {number}: {again}, expected {kept}"


def test_maps_computed_again_are_not_held():
    queries, keys, padding = torch.randn(8, 20, H), torch.randn(8, 20, H), torch.zeros(8, 20, dtype=torch.bool)
    held = {}
    for mode in ("off", "on"):
        module = AdditiveAttention(H, 32, mode)
        held[mode] = storage_bytes(kept_tensors(lambda module=module: module(queries, keys, padding)))
    maps, inputs = 8 * 20 * 20 * 32, 2 * 8 * 20 * 32
    assert held["off"] - held["on"] == 4 * (maps - inputs)


@pytest.mark.parametrize(("sentences", "groups"), [(1, [1] * B), (2, [2, 2, 1]), (B, [B])])
def test_groups_are_noted_with_their_own_cost(sentences, groups, inputs, monkeypatch):
    module = AdditiveAttention(H, 7, "on")
    in_groups(monkeypatch, module.cost(sentences, T, S).kept_bytes)
    made = explain(module, *inputs).maps
    assert [one.cost for one in made] == [module.cost(size, T, S) for size in groups] and all(one.again for one in made)


def test_the_whole_batch_decides(inputs, monkeypatch):
    in_groups(monkeypatch, 1)
    module = AdditiveAttention(H, 7)
    whole = module.cost(B, T, S)
    for least, again in ((whole.kept_bytes, True), (whole.kept_bytes + 1, False)):
        monkeypatch.setattr(recompute, "HOST_RULE", Rule(least, whole.repeated_flops))
        assert [one.again for one in explain(module, *inputs).maps] == [again] * B


def test_the_rule_keeps_what_is_small_and_makes_the_rest_again():
    module = AdditiveAttention(256)
    host = torch.device("cpu")
    assert module.cost(32, 30, 30).pays(host) and not module.cost(1, 10, 10).pays(host)
    assert not DotAttention().cost(32, 30, 30).pays(host)


def test_kinds_and_modes_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match="attention must be one of additive, dot, got 'soft'"):
        attention_of("soft", H)
    with pytest.raises(ValueError, match="recompute must be one of auto, on, off, got 'maybe'"):
        attention_of("dot", H, "maybe")
