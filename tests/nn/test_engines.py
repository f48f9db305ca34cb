"""Sessions behind the module: how many there are, what is loaded, what happens when a device fails."""

import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

import etalstm.nn
from etalstm.device import open_device
from etalstm.errors import DeviceError
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.storage import Storage
from etalstm.nn.notes import counting
from etalstm.nn.pool import IDLE_SESSIONS
from tests.nn.parity import assert_close, run, whole_loss
from tests.nn.watched import WatchedDevice

INPUTS, UNITS, STEPS, BATCH = 3, 4, 5, 2


def network(device, layers=1, **options):
    torch.manual_seed(0)
    return etalstm.nn.LSTM(INPUTS, UNITS, layers, engine=device, **options)


def sequences(steps=STEPS, seed=1):
    torch.manual_seed(seed)
    return torch.randn(steps, BATCH, INPUTS)


def train_once(one, x):
    one(x)[0].sum().backward()


@pytest.fixture(scope="module")
def simulated():
    with open_device("sim", "test") as device:
        yield device


@pytest.mark.parametrize(
    "options",
    [
        {"layers": 2, "bidirectional": True},
        {"storage": "ms1", "theta": 0.1},
        {"storage": "ms1-bf16", "slices": 2, "bias": False},
        {"layers": 2, "storage": "ms1", "theta": 0.01, "input_threshold": ((0.5, 0.05), 0.1), "delta_threshold": 0.02},
        {"bidirectional": True, "input_threshold": 0.3, "refresh": 3},
    ],
)
def test_golden_and_simulation_give_the_same_bits(simulated, options):
    packed = pack_padded_sequence(sequences(), [3, STEPS], enforce_sorted=False)
    for x in (sequences(), packed, sequences(STEPS - 2)):
        tensors = [run(network(device, **options), x) for device in ("golden", simulated)]
        for name, expected in tensors[0].items():
            assert torch.equal(tensors[1][name].view(torch.int32), expected.view(torch.int32)), name


def test_weights_are_loaded_again_only_when_they_changed():
    device = WatchedDevice()
    one = network(device, layers=2)
    for _ in range(3):
        train_once(one, sequences())
    assert device.calls["load"] == 2
    with torch.no_grad():
        one.weight_hh_l1[0, 0] += 1
    train_once(one, sequences())
    assert device.calls == {"create": 2, "load": 3, "forward": 8, "backward": 8}


def test_a_zero_of_another_sign_is_another_weight():
    device = WatchedDevice()
    one = network(device)
    with torch.no_grad():
        one.weight_hh_l0[0, 0] = 0.0
        one(sequences())
        one.weight_hh_l0[0, 0] = -0.0
        one(sequences())
    assert device.calls["load"] == 2


def test_training_uses_a_session_for_each_layer():
    device = WatchedDevice()
    one = network(device, layers=2, bidirectional=True)
    optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
    for _ in range(4):
        train_once(one, sequences())
        optimizer.step()
    assert device.calls == {"create": 4, "load": 16, "forward": 16, "backward": 16}


def test_evaluation_needs_no_further_sessions():
    device = WatchedDevice()
    one = network(device)
    with torch.no_grad():
        for seed in range(2 * IDLE_SESSIONS):
            one(sequences(seed=seed))
    assert device.calls == {"create": 1, "load": 1, "forward": 2 * IDLE_SESSIONS}


def test_passes_nobody_goes_back_through_free_their_sessions():
    device = WatchedDevice()
    one = network(device)
    for seed in range(2 * IDLE_SESSIONS):
        loss = one(sequences(seed=seed))[0].sum()
    assert device.calls["create"] <= 2, "each pass is dropped when the next has been made"
    kept = [one(sequences(seed=seed))[0].sum() for seed in range(3)]
    before = device.calls["forward"]
    sum(kept, loss).backward()
    assert device.calls["forward"] == before, "every pass that was still wanted is still there"


def test_a_pass_that_no_session_holds_is_run_again_with_the_same_bits():
    x, expected = sequences(), run(network(WatchedDevice()), sequences())
    device = WatchedDevice(room=1)
    one, other = network(device), network(device)
    inputs = x.clone().requires_grad_()
    y, _ = one(inputs)
    other(sequences(seed=5))
    (dx,) = torch.autograd.grad(y, inputs, torch.ones_like(y), retain_graph=True)
    assert device.calls["forward"] == 3
    (again,) = torch.autograd.grad(y, inputs, torch.ones_like(y))
    assert torch.equal(dx, again) and torch.equal(y, expected["y"])


def test_passes_without_claims_are_recognised_again_after_passes_with_claims():
    device = WatchedDevice()
    one, state = network(device), torch.zeros(1, BATCH, UNITS)
    train_once(one, sequences())
    rest = (None, False, one.engine.key, Execution().of_layers([0]).text, 0.0)
    forwards = []
    for seed in range(3):
        given = (sequences(seed=seed), state, state, *(parameter.detach() for parameter in one.parameters()))
        y, h, c = torch.ops.etalstm.lstm_layer(*given, *rest)
        torch.ops.etalstm.lstm_layer_backward(y, h, c, *given, *rest)
        forwards.append(device.calls["forward"])
    assert forwards == [3, 4, 5], "the first is run again, as its inputs were not copied"


def test_passes_that_differ_in_their_settings_only_are_told_apart():
    device = WatchedDevice()
    one, state = network(device), torch.zeros(1, BATCH, UNITS)
    given = (sequences(), state, state, *(parameter.detach() for parameter in one.parameters()))
    executions = Execution(), Execution(delta_inputs=DeltaInputs(0.9, 0))
    rests = [(None, False, one.engine.key, execution.text, 0.0) for execution in executions]
    forward, backward = torch.ops.etalstm.lstm_layer, torch.ops.etalstm.lstm_layer_backward
    expected = [backward(*forward(*given, *rest), *given, *rest)[0] for rest in rests]
    outputs = [forward(*given, *rest) for rest in rests]
    last = backward(*outputs[1], *given, *rests[1])[0]
    first = backward(*outputs[0], *given, *rests[0])[0]
    assert torch.equal(first, expected[0]) and torch.equal(last, expected[1]) and not torch.equal(*expected)


def test_numbers_of_steps_share_sessions_where_plans_take_time():
    device = WatchedDevice(plans_steps=True)
    one = network(device)
    for steps in (5, 9, 7, 12, 16, 3, 9):
        x = sequences(steps)
        assert_close(run(one, x), run(network("golden"), x))
    assert [shape.steps for shape in device.shapes] == [5, 16]


def test_one_number_of_steps_is_planned_as_it_is():
    device = WatchedDevice(plans_steps=True)
    one = network(device)
    for _ in range(3):
        one(sequences(7))
    assert [(shape.steps, shape.masked) for shape in device.shapes] == [(7, False)]


def test_a_last_batch_with_fewer_sequences_than_slices():
    one = network("golden", slices=4)
    assert one(sequences())[0].shape == (STEPS, BATCH, UNITS)


@pytest.mark.parametrize("call", ["create", "load", "forward", "backward"])
def test_a_device_that_fails_is_named_and_the_module_can_be_used_again(call):
    device = WatchedDevice()
    one = network(device)
    device.fails = call
    direction = "backward" if call == "backward" else "forward"
    with pytest.raises(
        DeviceError, match=f"the {direction} pass of an LSTM layer failed on engine 'golden.*link is down"
    ):
        train_once(one, sequences())
    device.fails = None
    made = device.calls["create"]
    assert_close(run(one, sequences()), run(network("golden"), sequences()))
    assert device.calls["create"] == made + 1, "what the failed session holds is not trusted"


def test_a_named_device_that_fails_is_closed_and_opened_again(monkeypatch):
    opened, closed = [], []

    class Closing(WatchedDevice):
        def _release(self):
            closed.append(self)

    def open_watched(name):
        opened.append(Closing())
        return opened[-1]

    monkeypatch.setattr(etalstm.nn.engine, "open_device", open_watched)
    one = network("xdma:7")
    one(sequences())
    opened[0].fails = "forward"
    with pytest.raises(DeviceError, match="engine 'xdma:7'"):
        one(sequences())
    one(sequences())
    assert len(opened) == 2 and closed == opened[:1]


def test_a_layer_that_does_not_fit_says_why():
    with pytest.raises(DeviceError, match="room for 0 sessions"):
        network(WatchedDevice(room=0))(sequences())


def test_an_open_device_is_shared_by_its_modules_and_let_go_with_them():
    device = WatchedDevice()
    one, two = network(device), network(device)
    assert one.engine is two.engine
    with pytest.raises(TypeError, match="is an open device and cannot be pickled"):
        pickle.dumps(one)
    key = one.engine.key
    y = one(sequences().requires_grad_())[0]
    del one, two
    gc.collect()
    y.sum().backward()
    del y
    gc.collect()
    with pytest.raises(ValueError, match="no module in this process uses any more"):
        etalstm.nn.engine.find_engine(key)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"engine": "gpu"}, ValueError, "engine must be one of golden, sim, .* got 'gpu'"),
        ({"engine": 3}, TypeError, "engine must be .* got int"),
        ({"storage": "zip"}, ValueError, "storage must be one of dense"),
        ({"theta": 0.1, "storage": "dense"}, ValueError, "dense storage prunes nothing: theta must be 0, got 0.1$"),
        ({"storage": ("ms1", "ms1")}, ValueError, "one for each of 1 layers"),
        ({"slices": 0}, ValueError, "slices must be above 0, got 0"),
        ({"input_threshold": (0.1, 0.2)}, ValueError, "one input threshold, or one for each of 1 layers, got 2"),
        ({"input_threshold": -1.0}, ValueError, "input_threshold must be finite and at least 0, got -1"),
        ({"input_threshold": 0.1, "refresh": 1}, ValueError, "with refresh 1 everything is sent"),
        ({"refresh": -1}, ValueError, "refresh must be an integer of at least 0"),
        (
            {"delta_threshold": 0.1},
            ValueError,
            "storage dense keeps δ whole: delta_threshold must be 0",
        ),
        ({"storage": "ms1", "delta_threshold": float("nan")}, ValueError, "delta_threshold must be finite"),
    ],
)
def test_what_no_engine_is_refused_when_the_module_is_made(options, error, message):
    with pytest.raises(error, match=message):
        etalstm.nn.LSTM(INPUTS, UNITS, **options)


def test_a_threshold_switches_ms1_on_where_no_storage_is_named():
    assert etalstm.nn.LSTM(INPUTS, UNITS, theta=0.1)._settings.execution.storage == Storage("ms1", 0.1)
    assert etalstm.nn.HLSTM(INPUTS, UNITS, theta=0.1)._settings.execution.storage == Storage("ms1", 0.1)
    with pytest.raises(ValueError, match=r"dense storage prunes nothing: theta must be 0, got 0\.1$"):
        etalstm.nn.accelerate("golden", storage="dense", theta=0.1)
    x = sequences()
    stock = torch.nn.LSTM(INPUTS, UNITS)
    with counting() as usages, etalstm.nn.accelerate("golden", theta=0.1):
        stock(x)[0].sum().backward()
    assert usages[0].footprint < 1


def test_a_card_that_is_not_there():
    with pytest.raises(DeviceError, match="failed on engine 'xdma:99'"):
        network("xdma:99")(sequences())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["input", "weight", "gradient"])
def test_numbers_that_are_none_are_refused_and_the_module_can_be_used_again(value, where):
    one, x = network("golden"), sequences()
    weight = one.weight_hh_l0.detach().clone()
    if where == "input":
        x[1, 0, 2] = value
    if where == "weight":
        one.weight_hh_l0.data[1, 2] = value
    with pytest.raises(ValueError, match=f"must be finite, got {value}"):
        y, _ = one(x)
        (y * (value if where == "gradient" else 1)).sum().backward()
    one.weight_hh_l0.data.copy_(weight)
    assert_close(run(one, sequences()), run(one.to_stock(), sequences()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_another_precision_is_refused(dtype):
    with pytest.raises(ValueError, match=f"computes float32, got the input in {dtype}.*autocast"):
        network("golden", dtype=dtype)(sequences().to(dtype))


def test_states_of_another_precision_are_refused():
    h0, c0 = torch.zeros(2, 1, BATCH, UNITS)
    with pytest.raises(ValueError, match=r"got c0 in torch\.float64"):
        network("golden")(sequences(), (h0, c0.double()))


def test_tensors_of_a_gpu_are_refused():
    with torch._subclasses.FakeTensorMode(), etalstm.nn.accelerate():
        x, weights = (torch.empty(*shape, device="xpu") for shape in ((STEPS, BATCH, 1), (4, 1)))
        state = torch.empty(1, BATCH, 1, device="xpu")
        with pytest.raises(RuntimeError, match=r"takes tensors of the host's memory, got the input on xpu.*\.cpu\(\)"):
            torch._VF.lstm(x, (state, state), [weights] * 2, False, 1, 0.0, False, False, False)


def test_tensors_in_two_places_are_refused():
    with pytest.raises(RuntimeError, match="is on cpu, the input on meta"):
        network("golden")(sequences().to("meta"))


def test_threads_that_share_a_device_get_their_own_results():
    device = WatchedDevice()
    inputs = [sequences(seed=seed) for seed in range(8)]
    expected = [run(network("golden"), x) for x in inputs]

    def work(number):
        one, x = network(device), inputs[number].clone().requires_grad_()
        one.load_state_dict(weights)
        y, (h, c) = one(x)
        whole_loss(y, h, c).backward()
        return {"dx": x.grad} | {name: parameter.grad for name, parameter in one.named_parameters()}

    weights = network("golden").state_dict()
    with ThreadPoolExecutor(4) as threads:
        for actual, one in zip(threads.map(work, range(len(inputs))), expected, strict=True):
            assert all(torch.equal(tensor, one[name]) for name, tensor in actual.items())


def test_no_other_thread_takes_the_session_between_a_pass_and_its_claim(monkeypatch):
    one = network(WatchedDevice())
    expected, claim = run(network("golden"), sequences()), one.engine.claim

    def late_claim():
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(one, sequences(seed=9)).result()
        return claim()

    monkeypatch.setattr(one.engine, "claim", late_claim)
    for name, actual in run(one, sequences()).items():
        assert torch.equal(actual, expected[name]), name
