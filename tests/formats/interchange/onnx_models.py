"""ONNX files to damage, and a reader that tells which files are opened meanwhile."""

import os
import sys
from pathlib import Path

import pytest

from etalstm.errors import InterchangeError
from etalstm.formats.interchange.onnx_read import read_onnx
from etalstm.formats.interchange.onnx_write import Network, write_onnx
from etalstm.formats.interchange.state import LstmState
from tests.formats.interchange.states import state_dict

onnx = pytest.importorskip("onnx", reason="onnx is not installed: the extra onnx")

HIDDEN = 4
DATA = "weights.bin"
OPENED: list[str] | None = None  # by the reader
CODE = tuple(Path(os.path.realpath(place)) for place in (sys.prefix, sys.base_prefix, Path(__file__).parents[3]))


def note(event, arguments):
    if event == "open" and OPENED is not None and isinstance(arguments[0], str):
        OPENED.append(arguments[0])


sys.addaudithook(note)  # there is no way to take it away


def reads(path):
    """Read a file: give the layers, or None if it is refused."""
    global OPENED
    OPENED = []
    try:
        return read_onnx(path)
    except InterchangeError as error:
        assert str(path) in str(error)
        assert len(str(error)) < 2000
        return None
    finally:
        opened, OPENED = OPENED, None
        outside = [name for name in opened if not (_is_beside(path, name) or _is_code(name))]
        assert outside == [], "files outside of the folder"


def _is_beside(model, name):
    """Whether a file lies in the model's folder once all links are resolved."""
    return Path(os.path.realpath(model.parent)) in Path(os.path.realpath(name)).parents


def _is_code(name):
    """Python opens sources for the text of a warning, and modules that are imported late."""
    place = Path(os.path.realpath(name))
    return place.suffix in (".py", ".pyc", ".so") and any(folder in place.parents for folder in CODE)


def plain(layers=2, directions=2):
    """A stack as this program writes it."""
    state = LstmState.of_arrays(state_dict(HIDDEN * directions, HIDDEN, layers, directions))

    def write(path):
        write_onnx(path, Network(state))
        return onnx.load(path)

    return write


def with_constants(path):
    """The same, with weights in Constant nodes, behind Identity nodes, and a graph inside a node."""
    model = plain(1, 1)(path)
    graph = model.graph
    for tensor in list(graph.initializer):
        graph.node.insert(0, onnx.helper.make_node("Identity", [f"{tensor.name}c"], [tensor.name]))
        graph.node.insert(0, onnx.helper.make_node("Constant", [], [f"{tensor.name}c"], value=tensor))
    del graph.initializer[:]
    inner = onnx.GraphProto()
    inner.CopyFrom(graph)
    graph.node.append(onnx.helper.make_node("If", ["x"], ["z"], then_branch=inner, else_branch=inner))
    return model


def with_files(path):
    """The same, with the weights in a file of their own."""
    model = plain(1, 1)(path)
    onnx.external_data_helper.convert_model_to_external_data(model, location=DATA, size_threshold=0)
    onnx.save(model, path)
    return onnx.load(path, load_external_data=False)


def weights_of(model):
    return next(tensor for tensor in model.graph.initializer if tensor.name == "W0")


def forged_files(path, **entries):
    """Write a model whose first tensor says that its data lie elsewhere."""
    model = with_files(path)
    tensor = weights_of(model)
    kept = {entry.key: entry.value for entry in tensor.external_data} | entries
    del tensor.external_data[:]
    for key, value in kept.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def path(tmp_path):
    """A model's place, with a secret beside its folder and ways to it within."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(4096))
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "up").symlink_to(tmp_path)
    return folder / "model.onnx"
