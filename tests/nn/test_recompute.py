import pytest
import torch

from etalstm.nn.recompute import GPU_RULE, HOST_RULE, WORTH, Cost, recompute, rule_of
from tests.nn.parity import DEVICES


def large_inside(x, w):
    return (x[:, None] + w[None]).tanh().sum(1)


def gradients(mode, function=large_inside, device="cpu"):
    torch.manual_seed(3)
    x, w = (torch.randn(rows, 5, device=device, requires_grad=True) for rows in (4, 6))
    y = recompute(function, x, w, mode=mode)
    (y * torch.arange(5.0, device=device)).sum().backward()
    return y, x.grad, w.grad, torch.rand(1, device=device), torch.rand(1)


def same(device, function=large_inside):
    for kept, again in zip(gradients("off", function, device), gradients("on", function, device), strict=True):
        assert torch.equal(kept, again), f"{again}, expected {kept}"


@pytest.mark.parametrize("device", DEVICES)
def test_bits_are_those_of_keeping(device):
    same(device)


@pytest.mark.parametrize("device", DEVICES)
def test_dropout_draws_the_same_numbers_again_and_leaves_the_generator_as_it_was(device):
    same(device, lambda x, w: torch.dropout(large_inside(x, w), 0.5, True))


def test_autocast_is_the_same_again():
    with torch.autocast("cpu", torch.bfloat16):
        kept = gradients("off", lambda x, w: (x @ w.T) @ w)
    x, w = (torch.randn(4, 5, requires_grad=True), torch.randn(6, 5, requires_grad=True))
    torch.manual_seed(3)
    with torch.no_grad():
        x.copy_(torch.randn(4, 5)), w.copy_(torch.randn(6, 5))
    with torch.autocast("cpu", torch.bfloat16):
        y = recompute(lambda x, w: (x @ w.T) @ w, x, w, mode="on")
    (y * torch.arange(5.0)).sum().backward()
    assert y.dtype is torch.bfloat16 and torch.equal(y, kept[0]) and torch.equal(w.grad, kept[2])


def test_inputs_without_gradient_have_none():
    x, w, n = torch.randn(4, 5), torch.randn(6, 5, requires_grad=True), torch.tensor(2)
    recompute(lambda x, w, n: large_inside(x, w) * n, x, w, n, mode="on").sum().backward()
    assert x.grad is None and w.grad is not None


def test_without_gradients_the_function_runs_once():
    calls = []
    with torch.no_grad():
        recompute(lambda x: calls.append(0) or x, torch.ones(1, requires_grad=True), mode="on")
    assert len(calls) == 1


def test_a_tensor_that_was_no_argument_is_refused():
    hidden = torch.randn(7, requires_grad=True)
    y = recompute(lambda x: x * hidden.sum(), torch.ones(2, requires_grad=True), mode="on")
    with pytest.raises(RuntimeError, match=r"read a tensor of shape \(7,\) .* pass the tensor as an argument"):
        y.sum().backward()


def test_inputs_that_changed_since_are_refused():
    x = torch.ones(2, requires_grad=True)
    changed = x * 1
    y = recompute(torch.exp, changed, mode="on")
    changed.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradients_of_gradients_are_refused():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match="gradients of gradients need the maps; use the mode 'off'"):
        torch.autograd.grad(recompute(torch.exp, x, mode="on").sum(), x, create_graph=True)


@pytest.mark.parametrize(
    ("more_bytes", "more_flops_of_a_byte", "pays"),
    [
        (0, 0, True),
        (-1, 0, False),
        (0, 1, False),
    ],
)
@pytest.mark.parametrize(("device", "rule"), list(zip(DEVICES, (HOST_RULE, GPU_RULE), strict=False)))
def test_the_rule_weighs_bytes_against_operations(device, rule, more_bytes, more_flops_of_a_byte, pays):
    kept_bytes = rule.least_bytes + more_bytes
    cost = Cost(kept_bytes, (WORTH * rule.flops_per_byte + more_flops_of_a_byte) * kept_bytes)
    y = recompute(torch.exp, torch.ones(1, device=device, requires_grad=True), cost=cost)
    assert (type(y.grad_fn).__name__ == "_RecomputedBackward") == pays


def test_a_gpu_has_a_rule_of_its_own():
    assert rule_of(torch.device("cuda", 1)) == GPU_RULE and rule_of(torch.device("cpu")) == HOST_RULE
    cost = Cost(HOST_RULE.least_bytes, 0.0)
    assert cost.pays(torch.device("cpu")) and not cost.pays(torch.device("cuda"))


def test_a_result_without_gradient_gives_its_inputs_none():
    x = torch.ones(3, requires_grad=True)
    (recompute(lambda x: x.detach(), x, mode="on") + x).sum().backward()
    assert torch.equal(x.grad, torch.ones(3))


def test_an_input_that_is_used_outside_too_has_its_gradient_to_rounding():
    found = []
    for mode in ("off", "on"):
        torch.manual_seed(3)
        x = torch.randn(1000, requires_grad=True)
        (recompute(lambda x: x.exp() * x.sin() * x.tanh(), x, mode=mode) + x.cos()).sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def test_inputs_that_are_no_tensors_are_refused():
    with pytest.raises(TypeError, match="inputs must be tensors, got int as number 2"):
        recompute(torch.add, torch.ones(1), 3)


def test_a_function_without_inputs_is_called():
    assert recompute(lambda: torch.ones(2), cost=Cost(HOST_RULE.least_bytes, 0.0)).sum() == 2


def test_modes_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match="recompute must be one of auto, on, off, got 'yes'"):
        recompute(torch.exp, torch.ones(1), mode="yes")
