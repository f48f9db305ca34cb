"""Tensors of ONNX files: their types and shapes, and how many weights a file may name."""

import os

import numpy as np
import pytest

from etalstm.errors import InterchangeError
from etalstm.formats.interchange.onnx_graph import ELEMENT_BYTES, DataFiles
from etalstm.formats.interchange.onnx_read import read_onnx
from etalstm.formats.interchange.onnx_write import Network, write_onnx
from etalstm.formats.interchange.state import LstmState
from tests.formats.interchange.onnx_models import DATA, plain, reads, weights_of, with_files
from tests.formats.interchange.onnx_models import path as path
from tests.formats.interchange.states import state_dict
from tests.fuzzing import little_memory as little_memory

onnx = pytest.importorskip("onnx", reason="onnx is not installed: the extra onnx")

SHARED = [(4, True), (2000, False)]  # a small file may name far more weights than it holds
TEBIBYTE = 1 << 40  # more than any memory; a sparse file of this size takes no space


def test_memory_that_runs_out_is_not_blamed_on_the_file(path, monkeypatch):
    def load(*_, **__):
        raise MemoryError

    plain(1, 1)(path)
    monkeypatch.setattr(onnx, "load", load)
    with pytest.raises(MemoryError):
        read_onnx(path)


@pytest.mark.parametrize("element_type", sorted(ELEMENT_BYTES))
def test_elements_have_the_size_that_the_library_gives_them(element_type):
    number = onnx.TensorProto.DataType.Value(element_type)
    raw = onnx.TensorProto(data_type=number, dims=[3], raw_data=bytes(3 * ELEMENT_BYTES[element_type]))
    assert onnx.numpy_helper.to_array(raw).shape == (3,)


@pytest.mark.parametrize("element_type", [0, 99, onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64])
@pytest.mark.parametrize("write", [plain(1, 1), with_files], ids=["inside", "beside"])
def test_types_that_no_weights_have(path, write, element_type):
    model = write(path)
    weights_of(model).data_type = element_type
    path.write_bytes(model.SerializeToString())
    assert reads(path) is None


@pytest.mark.parametrize("dims", [[1, 16, -1], [1, -16, -4], [-1]])
@pytest.mark.parametrize("write", [plain(1, 1), with_files], ids=["inside", "beside"])
def test_negative_sizes(path, write, dims):
    """NumPy would compute a size of -1 from the data."""
    model = write(path)
    weights_of(model).dims[:] = dims
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InterchangeError, match="impossible shape"):
        read_onnx(path)


@pytest.mark.parametrize("dims", [[1, 16, 1 << 40], [1, 16, 0], [1 << 62, 1 << 62, 4], [], [-1, -1, 4], [1, 16]])
def test_shapes_that_the_data_do_not_have(path, dims):
    model = plain(1, 1)(path)
    weights_of(model).dims[:] = dims
    path.write_bytes(model.SerializeToString())
    assert reads(path) is None


def write_stack(path, count, **options):
    """Write layers that share the weights of one."""
    write_onnx(path, Network(LstmState.of_arrays(state_dict(64, 64, 2, 1))))
    model = onnx.load(path)
    nodes = {node.name: node for node in model.graph.node}
    stack = [nodes["y0"]]
    for number in range(1, count):
        between, layer = onnx.NodeProto(), onnx.NodeProto()
        between.CopyFrom(nodes["x1"])
        layer.CopyFrom(nodes["y0"])
        between.input[0], between.output[0] = stack[-1].output[0], f"x{number}"
        layer.name, layer.input[0], layer.output[:] = f"y{number}", f"x{number}", [f"{n}{number}" for n in "yhc"]
        stack += [between, layer]
    del model.graph.node[:]
    model.graph.node.extend(stack)
    onnx.save(model, path, **options)
    return onnx.load(path, load_external_data=False)


@pytest.mark.parametrize(("count", "is_read"), SHARED)
def test_layers_that_share_weights(path, count, is_read):
    write_stack(path, count)
    found = reads(path)
    assert (found is not None) == is_read and (not is_read or len(found.layers) == count)


@pytest.mark.parametrize(("count", "is_read"), SHARED)
def test_a_part_of_a_file_that_is_not_read_pays_for_no_weights(path, count, is_read):
    write_stack(path, count, save_as_external_data=True, location=DATA, size_threshold=0)
    os.truncate(path.parent / DATA, TEBIBYTE)
    assert (reads(path) is not None) == is_read


@pytest.mark.parametrize("names", [1, 500], ids=["one name", "many names"])
@pytest.mark.parametrize("step", [0, 4], ids=["the same bytes", "overlapping"])
def test_a_byte_pays_for_weights_once(path, names, step):
    """Each layer has weights of its own, in the same bytes of a file or nearly."""
    model = write_stack(path, 500)
    weights = weights_of(model)
    (path.parent / "0").write_bytes(bytes(len(weights.raw_data) + 500 * step))
    for name in range(1, names):
        os.link(path.parent / "0", path.parent / str(name))
    layers = [node for node in model.graph.node if node.op_type == "LSTM"]
    for number, layer in enumerate(layers):
        layer.input[1] = f"weights{number}"
        tensor = model.graph.initializer.add(name=layer.input[1], data_type=weights.data_type, dims=weights.dims)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=str(number % names))
        tensor.external_data.add(key="offset", value=str(number * step))
        tensor.external_data.add(key="length", value=str(len(weights.raw_data)))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InterchangeError, match="too many share them"):
        read_onnx(path)


def test_bytes_are_counted_once_in_any_order(path):
    """Parts of a file are drawn and counted; so are the bytes in a set."""
    path.write_bytes(b"model")
    random, seen = np.random.default_rng(0), set()
    files = DataFiles(path)
    (path.parent / DATA).write_bytes(bytes(400))
    for _ in range(60):
        first, length = int(random.integers(380)), int(random.integers(20))
        tensor = onnx.TensorProto()
        for key, value in (("location", DATA), ("offset", first), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        files.read(tensor, length)
        seen.update(range(first, first + length))
        assert files.size_bytes == len(b"model") + len(seen)
