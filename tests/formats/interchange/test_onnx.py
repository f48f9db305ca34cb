"""ONNX files: other programs compute the same with them, and what they write is read."""

import importlib
import warnings

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.errors import InterchangeError
from etalstm.formats.interchange.onnx_read import read_onnx
from etalstm.formats.interchange.onnx_write import Network, write_onnx
from etalstm.formats.interchange.state import LstmState
from etalstm.network.shape import NetworkShape
from etalstm.train import load
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings
from tests.formats.interchange.states import state_dict

onnx = pytest.importorskip("onnx", reason="onnx is not installed: the extra onnx")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: the extra onnx-test")

STEPS, BATCH, INPUTS, HIDDEN = 6, 3, 5, 4
LENGTHS = np.array([6, 2, 4], np.int32)


def values(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def run(path, **inputs):
    """Run a file under onnxruntime."""
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, inputs)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("opset", [17, 20])
def test_layers_compute_what_the_golden_device_does(path, opset):
    state = LstmState.of_arrays(state_dict(INPUTS, HIDDEN, 2, 1))
    write_onnx(path, Network(state), opset)
    x = values(STEPS, BATCH, INPUTS)
    y, h, c = run(path, x=x, lengths=LENGTHS)
    with open_device("golden") as device:
        session = device.create(TrainingShape(NetworkShape(INPUTS, HIDDEN, 2), BATCH, STEPS, masked=True))
        session.load(state.to_layers())
        expected = session.forward(x, LENGTHS)
    for got, wanted in ((y, expected.y), (h, expected.h), (c, expected.c)):
        np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_a_classifier_of_tokens_gives_logits_of_the_last_step(path):
    state = LstmState.of_arrays(state_dict(INPUTS, HIDDEN, 1, 1))
    embedding, weights, bias = values(9, INPUTS), values(3, HIDDEN), values(3)
    tokens = np.random.default_rng(0).integers(0, 9, (STEPS, BATCH))
    write_onnx(path, Network(state, embedding, (weights, bias)))
    logits = run(path, tokens=tokens, lengths=LENGTHS)[0]
    write_onnx(path, Network(state))
    y, _, _ = run(path, x=embedding[tokens], lengths=LENGTHS)
    last = y[LENGTHS - 1, np.arange(BATCH)]
    np.testing.assert_allclose(logits, last @ weights.T + bias, atol=1e-6)


def test_logits_of_every_step(path):
    state = LstmState.of_arrays(state_dict(INPUTS, HIDDEN, 1, 1))
    weights, bias, x = values(3, HIDDEN), values(3), values(STEPS, BATCH, INPUTS)
    write_onnx(path, Network(state, output=(weights, bias), per_step=True))
    logits = run(path, x=x, lengths=LENGTHS)[0]
    write_onnx(path, Network(state))
    np.testing.assert_allclose(logits, run(path, x=x, lengths=LENGTHS)[0] @ weights.T + bias, atol=1e-6)


@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (3, 1), (2, 2)])
def test_what_is_written_is_read_bit_for_bit(path, layers, directions):
    arrays = state_dict(INPUTS, HIDDEN, layers, directions)
    write_onnx(path, Network(LstmState.of_arrays(arrays)))
    again = read_onnx(path).arrays()
    assert again.keys() == arrays.keys()
    assert all((again[name] == arrays[name]).all() for name in arrays)


def test_equal_networks_give_equal_files(path, tmp_path):
    network = Network(LstmState.of_arrays(state_dict(INPUTS, HIDDEN, 2, 2)))
    write_onnx(path, network)
    other = tmp_path / "other.onnx"
    write_onnx(other, network)
    assert path.read_bytes() == other.read_bytes()


EXPORTERS = [False, True]  # PyTorch's older exporter and its newer one


def export(path, dynamo, **options):
    """Have PyTorch write a file; gives the module."""
    torch = pytest.importorskip("torch", reason="torch is not installed: the extra torch")
    if dynamo:
        pytest.importorskip("onnxscript", reason="onnxscript is not installed: PyTorch's newer exporter needs it")
    torch.manual_seed(0)
    module = torch.nn.LSTM(INPUTS, HIDDEN, 2, **options).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (torch.zeros(STEPS, BATCH, INPUTS),), path, dynamo=dynamo)
    return module


@pytest.mark.parametrize("dynamo", EXPORTERS)
@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True}, {"bias": False}, {"batch_first": True, "dropout": 0.5}], ids=str
)
def test_reads_what_pytorch_exports(path, dynamo, options):
    theirs = {name: array.numpy() for name, array in export(path, dynamo, **options).state_dict().items()}
    state = read_onnx(path).arrays()
    assert theirs.keys() <= state.keys()
    assert all((state[name] == theirs.get(name, 0)).all() for name in state)


def test_refuses_projections_as_pytorch_exports_them(path):
    """The newer exporter writes the projection's size as the number of units, and says nothing."""
    export(path, True, proj_size=2)
    with pytest.raises(InterchangeError, match=r"its W has shape \(1, 2, 4\), expected \(1, 8, any\): a projection"):
        read_onnx(path)


def test_pytorch_computes_what_a_written_file_does(path):
    torch = pytest.importorskip("torch", reason="torch is not installed: the extra torch")
    arrays = state_dict(INPUTS, HIDDEN, 2, 2)
    module = torch.nn.LSTM(INPUTS, HIDDEN, 2, bidirectional=True)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    write_onnx(path, Network(LstmState.of_arrays(arrays)))
    x = values(STEPS, BATCH, INPUTS)
    y, h, c = run(path, x=x, lengths=np.full(BATCH, STEPS, np.int32))
    with torch.no_grad():
        expected, (last, state) = module(torch.from_numpy(x))
    for got, wanted in ((y, expected), (h, last), (c, state)):
        np.testing.assert_allclose(got, wanted.numpy(), atol=1e-6)


def changed(path, **options):
    """Write a file whose first LSTM node has other attributes; None takes one away."""
    write_onnx(path, Network(LstmState.of_arrays(state_dict(INPUTS, HIDDEN, 1, 1))))
    model = onnx.load(path)
    node = next(node for node in model.graph.node if node.op_type == "LSTM")
    kept = [attribute for attribute in node.attribute if attribute.name not in options]
    given = [onnx.helper.make_attribute(name, value) for name, value in options.items() if value is not None]
    del node.attribute[:]
    node.attribute.extend(kept + given)
    return model, node


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip": 3.0}, "has clip 3.0"),
        ({"input_forget": 1}, "input_forget 1: its gates are coupled"),
        ({"direction": 3}, "has direction 3, expected a text"),
        ({"direction": b"\xff"}, r"has direction .*xff', expected forward or bidirectional"),
        ({"activations": 3}, "has activations 3, expected a text"),
        ({"direction": "reverse"}, "direction 'reverse', expected forward or bidirectional"),
        ({"activations": ["Sigmoid", "Relu", "Tanh"]}, "activations Sigmoid, Relu, Tanh, expected Sigmoid, Tanh, Tanh"),
        ({"hidden_size": None}, "has hidden_size None, expected a number above 0"),
        ({"hidden_size": 2}, r"its W has shape \(1, 16, 5\), expected \(1, 8, any\)"),
    ],
)
def test_refuses_cells_that_are_not_pytorchs(path, options, message):
    model, _ = changed(path, **options)
    onnx.save(model, path)
    with pytest.raises(InterchangeError, match=rf"model\.onnx: LSTM node 'y0' ?.*{message}"):
        read_onnx(path)


def test_refuses_peepholes_states_and_weights_that_are_no_constants(path):
    model, node = changed(path)
    node.input.extend(["", "", "W0"])
    onnx.save(model, path)
    with pytest.raises(InterchangeError, match="has peepholes"):
        read_onnx(path)
    model, node = changed(path)
    node.input.append("W0")
    onnx.save(model, path)
    with pytest.raises(InterchangeError, match="has a constant initial_h that is not zero"):
        read_onnx(path)
    model, node = changed(path)
    node.input[1] = "x"
    onnx.save(model, path)
    with pytest.raises(InterchangeError, match="its W is not stored in the file"):
        read_onnx(path)


def test_refuses_damage(path):
    """Neither the protocol's errors nor NumPy's reach the caller."""
    model, _ = changed(path)
    next(tensor for tensor in model.graph.initializer if tensor.name == "W0").raw_data = b"xx"
    onnx.save(model, path)
    with pytest.raises(InterchangeError, match=r"model\.onnx: LSTM node 'y0': its W .*the data of 'W0' are damaged"):
        read_onnx(path)
    for operator, message in (("Constant", "Constant node 'k' has no value"), ("Identity", "'k' has no input")):
        model, node = changed(path)
        node.input[1] = "k"
        model.graph.node.insert(0, onnx.helper.make_node(operator, [], ["k"]))
        onnx.save(model, path)
        with pytest.raises(InterchangeError, match=rf"model\.onnx: LSTM node 'y0': its W .*{message}"):
            read_onnx(path)
    model, node = changed(path)
    node.input[1] = "k"
    model.graph.node.insert(0, onnx.helper.make_node("Identity", ["k"], ["k"]))
    onnx.save(model, path)
    with pytest.raises(InterchangeError, match="Identity node 'k' depends on itself"):
        read_onnx(path)


@pytest.mark.parametrize("value", [None, 0.0, 1.0])
def test_an_initial_state_of_one_value_must_be_zero(path, value):
    model, node = changed(path)
    tensor = {} if value is None else {"value": onnx.helper.make_tensor("v", onnx.TensorProto.FLOAT, [1], [value])}
    model.graph.node.insert(0, onnx.helper.make_node("ConstantOfShape", ["shape"], ["state"], **tensor))
    node.input.append("state")
    onnx.save(model, path)
    if not value:
        assert len(read_onnx(path).layers) == 1
        return
    with pytest.raises(InterchangeError, match="LSTM node 'y0' has a constant initial_h that is not zero"):
        read_onnx(path)


def test_refuses_files_with_something_else_in_them(path):
    path.write_bytes(b"no model at all")
    with pytest.raises(InterchangeError, match="no ONNX model"):
        read_onnx(path)
    model, _ = changed(path)
    del model.graph.node[:]
    onnx.save(model, path)
    with pytest.raises(InterchangeError, match="no LSTM node, only none"):
        read_onnx(path)
    with pytest.raises(FileNotFoundError):
        read_onnx(path.with_name("missing.onnx"))


def test_refuses_parts_that_do_not_go_together(path):
    state = LstmState.of_arrays(state_dict(INPUTS, HIDDEN, 1, 1))
    for network, message in (
        (Network(state, embedding=values(9, 4)), r"embedding has shape \(9, 4\), expected \(tokens, 5\)"),
        (Network(state, output=(values(3, 5), values(3))), r"weights have shape \(3, 5\), expected \(3, 4\)"),
        (Network(state, per_step=True), "per_step gives logits of every step, and needs an output layer"),
        (Network(state, embedding=values(9, 5).astype(float)), "embedding is of float64, expected float32"),
        (Network(state, embedding=values(9, 5) * np.inf), "embedding has a value that is not finite"),
        (Network(state, output=(values(3, 4).astype(np.float16), values(3))), "weight is of float16, expected float32"),
        (Network(state, output=(values(3, 4), values(3) * np.nan)), "bias has a value that is not finite"),
    ):
        with pytest.raises(InterchangeError, match=message):
            write_onnx(path, network)
    with pytest.raises(InterchangeError, match="opset must be 17 to 20, got 16"):
        write_onnx(path, Network(state), 16)
    assert not path.exists()


def test_says_how_to_install_onnx(path, monkeypatch):
    monkeypatch.setattr(importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(InterchangeError, match=r"pip install 'etalstm\[onnx\]'"):
        write_onnx(path, Network(LstmState.of_arrays(state_dict(INPUTS, HIDDEN, 1, 1))))


def test_a_trained_network_answers_alike_under_onnxruntime(path, tmp_path):
    settings = Settings("digits", iterations=3, batch=8, evaluation_batches=1, layers=2)
    with open_device("golden") as device:
        Trainer(settings, device, tmp_path / "run").run()
    with load(tmp_path / "run") as trained:
        trained.export(path)
        images = [values(steps, trained.network.input_size) for steps in (8, 3, 5)]
        answers = trained.predict(images)
        labels = [trained.encoding.name_of(number) for number in range(trained.identity.outputs)]
    x = np.zeros((8, 3, images[0].shape[1]), np.float32)
    for b, image in enumerate(images):
        x[: len(image), b] = image
    logits = run(path, x=x, lengths=np.array([8, 3, 5], np.int32))[0]
    assert [labels[number] for number in logits.argmax(axis=1)] == answers
