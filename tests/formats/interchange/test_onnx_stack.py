"""LSTM nodes of ONNX files are read as layers only if each reads what the one before gives."""

import warnings

import pytest

from etalstm.errors import InterchangeError
from etalstm.formats.interchange.onnx_read import read_onnx
from etalstm.formats.interchange.onnx_write import Network, write_onnx
from etalstm.formats.interchange.state import LstmState
from tests.formats.interchange.states import state_dict

onnx = pytest.importorskip("onnx", reason="onnx is not installed: the extra onnx")

HIDDEN = 4


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def stack(path, change, directions=1):
    """Write a file of two layers whose inputs are as wide as the layers, after a change of its nodes by name."""
    write_onnx(path, Network(LstmState.of_arrays(state_dict(HIDDEN * directions, HIDDEN, 2, directions))))
    model = onnx.load(path)
    change({node.name: node for node in model.graph.node})
    onnx.save(model, path)
    return path


def of_type(operator, inputs, **attributes):
    """Give a change of the node between the layers."""

    def change(nodes):
        nodes["x1"].CopyFrom(onnx.helper.make_node(operator, inputs, ["x1"], name="x1", **attributes))

    return change


def reads(name):
    """Give a change of what the second layer reads."""

    def change(nodes):
        nodes["y1"].input[0] = name

    return change


def turns(*order):
    """Give a change of the order of the axes of Y: steps, directions, sequences, units."""

    def change(nodes):
        nodes["beside0"].attribute[0].ints[:] = order

    return change


def test_refuses_an_initial_state_that_another_layer_gives(path):
    def encoder_and_decoder(nodes):
        nodes["y1"].input.append("h0")

    with pytest.raises(
        InterchangeError, match=r"LSTM node 'y1': its initial_h is 'h0' of LSTM node 'y0', expected zeros"
    ):
        read_onnx(stack(path, encoder_and_decoder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (reads("x"), r"reads 'x', expected Y of LSTM node 'y0'"),
        (reads("h0"), r"reads output 1 of LSTM node 'y0', expected Y of LSTM node 'y0'"),
        (reads("y0"), r"reads axes \(T, 1, B, H\) of Y, expected \(T, B, H\)"),
        (of_type("Relu", ["beside0"]), r"reads output 0 of Relu node 'x1'"),
        (of_type("Concat", ["beside0", "x"], axis=0), r"Concat node 'x1' between two LSTM nodes changes axes"),
        (of_type("Squeeze", ["beside0"], axes=[1]), r"squeezes \[1\] of axes \(T, B, 1, H\)"),
        (of_type("Squeeze", ["beside0", "x"]), r"Squeeze node 'x1' .* has no constant axes"),
        (turns(2, 1, 0, 3), r"Reshape node 'x1' between two LSTM nodes changes axes \(B, 1, T, H\)"),
        (turns(0, 2, 1), r"Transpose node 'beside0' between two LSTM nodes changes axes"),
    ],
)
def test_refuses_nodes_that_are_no_stack(path, change, message):
    with pytest.raises(InterchangeError, match=rf"model\.onnx: .*{message}"):
        read_onnx(stack(path, change))


def test_refuses_directions_that_are_not_side_by_side(path):
    with pytest.raises(InterchangeError, match=r"'x1' .* changes axes \(T, D, B, H\), expected \(T, B, D·H\)"):
        read_onnx(stack(path, turns(0, 1, 2, 3), directions=2))


@pytest.mark.parametrize("operator", ["Identity", "Dropout", "Cast"])
def test_reads_a_stack_with_nodes_between_that_change_nothing(path, operator):
    def between(nodes):
        node, kind = nodes["y1"], {"to": onnx.TensorProto.FLOAT} if operator == "Cast" else {}
        nodes["x2"].CopyFrom(onnx.helper.make_node(operator, ["x1"], ["x2"], name="x2", **kind))
        node.input[0] = "x2"

    assert len(read_onnx(stack(path, between)).layers) == 2


@pytest.mark.parametrize("dynamo", [False, True])
def test_reads_two_modules_one_behind_the_other_as_pytorch_exports_them(path, dynamo):
    """Each turns its steps first, and its result back; the initial states are inputs of the file."""
    torch = pytest.importorskip("torch", reason="torch is not installed: the extra torch")
    if dynamo:
        pytest.importorskip("onnxscript", reason="onnxscript is not installed: PyTorch's newer exporter needs it")

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.LSTM(5, HIDDEN, bidirectional=True, batch_first=True)
            self.second = torch.nn.LSTM(2 * HIDDEN, HIDDEN, bidirectional=True, batch_first=True)

        def forward(self, x, h, c):
            y, _ = self.first(x, (h, c))
            return self.second(torch.nn.functional.dropout(y, 0.5, self.training), (h, c))[0]

    module, states = Two().eval(), torch.zeros(2, 2, 2, HIDDEN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (torch.zeros(2, 6, 5), *states), path, dynamo=dynamo)
    layers = read_onnx(path).arrays()
    for number, part in enumerate((module.first, module.second)):
        for name, value in part.state_dict().items():
            assert (layers[name.replace("_l0", f"_l{number}")] == value.numpy()).all(), (number, name)
