"""``etalstm.nn.optim.SGD``: the machine's update, on the device and in the module's parameters."""

import numpy as np
import pytest
import torch

import etalstm.nn
import etalstm.optim
from etalstm.device import TrainingShape, open_device
from etalstm.errors import DeviceError, DivergedError
from etalstm.network.shape import LayerParameters, NetworkShape
from etalstm.nn.optim import SGD
from tests.nn.watched import WatchedDevice

INPUTS, UNITS, STEPS, BATCH = 3, 4, 5, 2
RULE = {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.01}


def network(device="golden", layers=1, **options):
    torch.manual_seed(0)
    return etalstm.nn.LSTM(INPUTS, UNITS, layers, engine=device, **options)


def sequences(iteration=0, batch=BATCH):
    torch.manual_seed(10 + iteration)
    return torch.randn(STEPS, batch, INPUTS)


def go_back(one, x):
    one.zero_grad()
    one(x)[0].square().sum().backward()


def train(one, optimizer, iterations=4, batch=BATCH):
    for iteration in range(iterations):
        go_back(one, sequences(iteration, batch))
        optimizer.step()


def parameters_of(one):
    w_ih, w_hh, b_ih, b_hh = (tensor.detach().numpy() for tensor in one.parameters())
    return LayerParameters(np.concatenate([w_ih, w_hh], axis=1), b_ih + b_hh)


@pytest.mark.parametrize("rule", [{"lr": 0.5}, RULE])
def test_training_has_the_bits_of_a_session(rule):
    one = network()
    session = open_device("golden").create(TrainingShape(NetworkShape(INPUTS, UNITS), BATCH, STEPS))
    session.load([parameters_of(one)])
    train(one, SGD(one.parameters(), **rule))
    for iteration in range(4):
        y = session.forward(sequences(iteration).numpy()).y
        session.backward(2 * y)
        session.update(rule["lr"], rule.get("momentum", 0), weight_decay=rule.get("weight_decay", 0))
    expected, got = session.parameters()[0], parameters_of(one)
    assert np.array_equal(got.weights.view(np.uint32), expected.weights.view(np.uint32))
    assert np.array_equal(got.bias.view(np.uint32), expected.bias.view(np.uint32))


@pytest.mark.parametrize("rule", [{"lr": 0.5}, RULE])
def test_weights_are_loaded_once(rule):
    device = WatchedDevice()
    one = network(device, layers=2, bidirectional=True)
    train(one, SGD(one.parameters(), **rule))
    assert device.calls == {"create": 4, "load": 4, "forward": 16, "backward": 16, "update": 16}


def test_the_simulated_machine_holds_the_bits_of_the_parameters():
    with open_device("sim", "test") as device:
        one, reference = network(device), network()
        for each in (one, reference):
            train(each, SGD(each.parameters(), **RULE), 3)
        session = one.engine._sessions()._sessions[0].session
        expected, got = parameters_of(reference), session.parameters()[0]
        assert np.array_equal(got.weights.view(np.uint32), expected.weights.view(np.uint32))
        assert np.array_equal(got.bias.view(np.uint32), expected.bias.view(np.uint32))
        assert np.array_equal(parameters_of(one).weights, expected.weights)


def test_batches_of_two_sizes_carry_the_velocity_over():
    device = WatchedDevice()
    one, reference = network(device), network()
    for each in (one, reference):
        optimizer = SGD(each.parameters(), **RULE)
        for _ in range(3):
            for batch in (2, 3):
                train(each, optimizer, 1, batch)
    assert np.array_equal(parameters_of(one).weights, parameters_of(reference).weights)
    stock = network().to_stock()
    with torch.no_grad():
        stock.bias_hh_l0.zero_()
    one = network()
    one.load_state_dict(stock.state_dict())
    stock.bias_hh_l0.requires_grad_(False)  # one bias, as the machine has
    groups = [{"params": [stock.weight_ih_l0, stock.weight_hh_l0]}, {"params": [stock.bias_ih_l0], "weight_decay": 0.0}]
    optimizers = SGD(one.parameters(), **RULE), torch.optim.SGD(groups, **RULE)
    for batch in (2, 3, 2):
        for each, optimizer in zip((one, stock), optimizers, strict=True):
            train(each, optimizer, 1, batch)
    for mine, theirs in zip(one.parameters(), stock.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_a_step_that_moves_nothing_still_carries_the_velocity_over():
    one = network(WatchedDevice())
    optimizer = SGD(one.parameters(), **RULE)
    for rate, batch in ((0.5, 2), (0.0, 3), (0.5, 3)):
        optimizer.param_groups[0]["lr"] = rate
        train(one, optimizer, 1, batch)
    fresh = network()
    fresh.load_state_dict(one.state_dict())
    x = sequences(batch=3)
    assert torch.equal(one(x)[0], fresh(x)[0]), "the device has other weights than the module"


def test_gradients_that_are_not_the_devices_are_taken_by_the_host():
    device = WatchedDevice()
    one = network(device)
    optimizer = SGD(one.parameters(), **RULE)
    before = one.weight_hh_l0.detach().clone()
    go_back(one, sequences())
    torch.nn.utils.clip_grad_norm_(one.parameters(), 0.1)
    expected = before - 0.5 * (one.weight_hh_l0.grad + 0.01 * before)
    optimizer.step()
    assert device.calls["update"] == 0
    torch.testing.assert_close(one.weight_hh_l0.detach(), expected)
    train(one, optimizer, 2)
    assert device.calls["load"] >= 2 and optimizer.state[one.weight_hh_l0]["momentum_buffer"].abs().sum() > 0


def test_a_layer_without_biases_is_updated_by_the_host():
    device = WatchedDevice()
    one = network(device, bias=False)
    stock = one.to_stock()
    for each, optimizer in ((one, SGD), (stock, torch.optim.SGD)):
        train(each, optimizer(each.parameters(), **RULE))
    assert device.calls["update"] == 0
    for mine, theirs in zip(one.parameters(), stock.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_other_modules_are_updated_as_torch_does():
    linears = [torch.nn.Linear(3, 2) for _ in range(2)]
    linears[1].load_state_dict(linears[0].state_dict())
    for linear, optimizer in zip(linears, (SGD, torch.optim.SGD), strict=True):
        steps = optimizer(linear.parameters(), **RULE)
        for _ in range(3):
            linear.zero_grad()
            linear(torch.ones(1, 3)).square().sum().backward()
            steps.step()
    assert torch.equal(linears[0].weight, linears[1].weight)


def test_a_state_is_saved_and_taken_up():
    one, two = network(), network()
    first, second = (SGD(each.parameters(), **RULE) for each in (one, two))
    train(one, first)
    two.load_state_dict(one.state_dict())
    second.load_state_dict(first.state_dict())
    for each, optimizer in ((one, first), (two, second)):
        train(each, optimizer, 2)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_a_closure_is_called():
    one = network()
    optimizer = SGD(one.parameters(), lr=0.01)

    def closure():
        one.zero_grad()
        loss = one(sequences())[0].square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) > optimizer.step(closure)


def test_a_gradient_that_is_not_finite_changes_nothing():
    one = network(layers=2)
    before = {name: value.clone() for name, value in one.state_dict().items()}
    go_back(one, sequences())
    one.weight_ih_l1.grad[0, 0] = float("nan")
    with pytest.raises(DivergedError, match="nothing was updated"):
        SGD(one.parameters(), lr=0.1).step()
    assert all(torch.equal(value, before[name]) for name, value in one.state_dict().items())


def test_a_device_that_fails_is_named_and_the_module_can_be_used_again():
    device = WatchedDevice()
    one = network(device)
    optimizer = SGD(one.parameters(), **RULE)
    go_back(one, sequences())
    device.fails, before = "update", one.weight_hh_l0.detach().clone()
    with pytest.raises(DeviceError, match=r"the update of an LSTM layer failed on engine 'golden.*link is down"):
        optimizer.step()
    assert torch.equal(one.weight_hh_l0, before)
    device.fails = None
    train(one, optimizer, 1)
    assert not torch.equal(one.weight_hh_l0, before)


class FailsInItsSecondUpdate(WatchedDevice):
    def meet(self, call):
        self.fails = "update" if self.calls["update"] == 1 else None
        super().meet(call)


def test_a_device_that_fails_at_one_layer_leaves_all_as_they_were():
    disturbed, undisturbed = network(FailsInItsSecondUpdate(), layers=2), network(layers=2)
    optimizer, before = SGD(disturbed.parameters(), **RULE), [tensor.clone() for tensor in disturbed.parameters()]
    go_back(disturbed, sequences())
    with pytest.raises(DeviceError, match="link is down"):
        optimizer.step()
    assert all(map(torch.equal, disturbed.parameters(), before)), "a layer has moved"
    train(disturbed, optimizer)
    train(undisturbed, SGD(undisturbed.parameters(), **RULE))
    assert all(map(torch.equal, disturbed.parameters(), undisturbed.parameters()))


@pytest.mark.parametrize(("name", "value"), [("lr", -1.0), ("momentum", 1.0), ("weight_decay", -0.1)])
def test_numbers_outside_their_range_are_refused(name, value):
    with pytest.raises(ValueError, match=str(value)):
        SGD(network().parameters(), **{name: value})


OPTIONS = [("dampening", 0.5), ("nesterov", True), ("maximize", True), ("differentiable", True), ("momentum", 1.5)]


@pytest.mark.parametrize(("name", "value"), OPTIONS)
def test_options_of_a_group_that_no_device_has_are_refused(name, value):
    one = network()
    with pytest.raises(ValueError, match=rf"{name} must .*got {value}"):
        SGD([{"params": one.parameters(), name: value}], lr=0.1, momentum=0.9)
    optimizer = SGD([one.weight_ih_l0], lr=0.1)
    with pytest.raises(ValueError, match=rf"{name} must .*got {value}"):
        optimizer.add_param_group({"params": [one.weight_hh_l0], name: value})
    assert len(optimizer.param_groups) == 1
    optimizer.param_groups[0][name], before = value, one.weight_ih_l0.detach().clone()
    go_back(one, sequences())
    with pytest.raises(ValueError, match=rf"{name} must .*got {value}"):
        optimizer.step()
    assert torch.equal(one.weight_ih_l0, before)


@pytest.mark.parametrize("name", ["bias_ih_l0", "bias_hh_l0"])
def test_biases_with_different_gradients_take_the_step_of_torch(name):
    device = WatchedDevice()
    one = network(device)
    stock = one.to_stock()
    for each, kind in ((one, SGD), (stock, torch.optim.SGD)):
        optimizer = kind(each.parameters(), **RULE)
        for iteration in range(3):
            each.zero_grad()
            (each(sequences(iteration))[0].square().sum() + 10 * getattr(each, name).square().sum()).backward()
            optimizer.step()
    assert device.calls["update"] == 0
    for mine, theirs in zip(one.parameters(), stock.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_the_one_bias_takes_over_the_velocity_of_both():
    one = network()
    optimizer = SGD(one.parameters(), lr=0.5, momentum=0.5)
    with torch.no_grad():
        for tensor in (one.bias_ih_l0, one.bias_hh_l0):
            optimizer.state[tensor]["momentum_buffer"] = torch.full_like(tensor, 3.0)
    go_back(one, sequences())
    expected = one.bias_ih_l0 + one.bias_hh_l0 - 0.5 * (0.5 * 6 + one.bias_ih_l0.grad)
    optimizer.step()
    torch.testing.assert_close(one.bias_ih_l0 + one.bias_hh_l0, expected)
    assert "momentum_buffer" not in optimizer.state[one.bias_hh_l0], "it would be added again"


def test_biases_whose_gradients_are_no_numbers_change_nothing():
    one = network()
    go_back(one, sequences())
    one.bias_ih_l0.grad[0] = one.bias_hh_l0.grad[0] = float("nan")
    before = one.bias_ih_l0.detach().clone()
    with pytest.raises(DivergedError, match="nothing was updated"):
        SGD(one.parameters(), lr=0.1).step()
    assert torch.equal(one.bias_ih_l0, before)


@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"])
def test_a_parameter_that_two_layers_share_moves_once(name):
    one, two = network(), network()
    setattr(two, name, getattr(one, name))
    optimizer = SGD(dict.fromkeys([*one.parameters(), *two.parameters()]), lr=0.1)
    shared = getattr(one, name)
    before = shared.detach().clone()
    (one(sequences(0))[0].square().sum() + two(sequences(1))[0].square().sum()).backward()
    optimizer.step()
    torch.testing.assert_close(shared.detach(), before - 0.1 * shared.grad)


def test_one_tensor_that_is_both_biases_takes_the_step_of_torch():
    one = network()
    one.bias_hh_l0 = one.bias_ih_l0
    before, optimizer = one.bias_ih_l0.detach().clone(), SGD(one.parameters(), lr=0.1)
    go_back(one, sequences())
    optimizer.step()
    torch.testing.assert_close(one.bias_ih_l0.detach(), before - 0.1 * one.bias_ih_l0.grad)


def test_hooks_of_a_step_run_once():
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)  # from now on PyTorch's own step runs hooks too
    one, called = network(), []
    optimizer = SGD(one.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: called.append("before"))
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    train(one, optimizer, 1)
    assert called == ["before", "after"]


def test_a_normed_weight_is_updated_without_a_warning(recwarn):
    one = torch.nn.utils.parametrizations.weight_norm(network(), "weight_hh_l0")
    before = one.parametrizations.weight_hh_l0.original1.detach().clone()
    train(one, SGD(one.parameters(), lr=0.1), 1)
    assert not torch.equal(one.parametrizations.weight_hh_l0.original1, before) and not recwarn.list


def test_the_optimizer_has_its_old_name_too():
    assert etalstm.optim.SGD is SGD
