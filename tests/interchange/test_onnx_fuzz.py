"""ONNX files from elsewhere are read, or refused with an error that names the file; nothing else happens."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etalstm.errors import InterchangeError
from etalstm.interchange.onnx_data import DataFiles
from etalstm.interchange.onnx_read import read_onnx
from etalstm.interchange.onnx_write import Network, write_onnx
from etalstm.interchange.state import LstmState
from tests.fuzzing import FUZZ
from tests.fuzzing import little_memory as little_memory
from tests.interchange.states import state_dict

onnx = pytest.importorskip("onnx", reason="onnx is not installed: the extra onnx")

HIDDEN = 4
DATA = "weights.bin"
NUMBERS = st.sampled_from([0, 1, -1, 2, 7, 1 << 20, 1 << 40, (1 << 62) - 1, -(1 << 63)])
OPENED: list[str] | None = None  # by the reader


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
        outside = [name for name in opened if path.parent not in Path(name).parents and not _is_code(name)]
        assert outside == [], "files outside of the folder"


def _is_code(name):
    """Python opens sources for the text of a warning, and modules that are imported late."""
    return name.endswith((".py", ".pyc", ".so"))


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


CORPUS = [plain(), with_constants, with_files]


@pytest.fixture(scope="module", params=CORPUS, ids=["plain", "constants", "files"])
def valid(request, tmp_path_factory):
    """A file, and what it holds."""
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    model = request.param(path)
    path.write_bytes(model.SerializeToString())
    assert reads(path) is not None
    return path, model


@FUZZ
@given(st.data())
def test_damaged_bytes(valid, data):
    path, model = valid
    content = bytearray(model.SerializeToString())
    first = data.draw(st.integers(0, len(content)))
    last = data.draw(st.integers(first, min(len(content), first + 12)))
    path.write_bytes(content[:first] + data.draw(st.binary(max_size=12)) + content[last:])
    reads(path)


def messages(message):
    """Every message inside another, with its own."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if repeated(field) else [value]:
                yield from messages(inner)


def repeated(field):
    return (not hasattr(type(field), "is_repeated") and field.label == field.LABEL_REPEATED) or getattr(
        field, "is_repeated", False
    )


def drawn(data, field):
    """A value that a field can hold."""
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        text = field.type == field.TYPE_STRING
        return data.draw(st.text(max_size=6) if text else st.binary(max_size=12))
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return data.draw(st.floats(width=32))
    number = data.draw(NUMBERS)
    if kind == field.CPPTYPE_ENUM:
        return data.draw(st.sampled_from([value.number for value in field.enum_type.values]))
    return number if kind in (field.CPPTYPE_INT64,) else number % (1 << 31)


@FUZZ
@given(st.data())
def test_forged_messages(valid, data):
    path, model = valid
    forged = onnx.ModelProto()
    forged.CopyFrom(model)
    for _ in range(data.draw(st.integers(1, 3))):
        forge(data, data.draw(st.sampled_from(list(messages(forged)))), list(messages(model)))
    path.write_bytes(forged.SerializeToString())
    reads(path)


def forge(data, message, others):
    """Change a field of a message: take it away, set it, or put another message of its type there."""
    field = data.draw(st.sampled_from(list(message.DESCRIPTOR.fields)))
    if data.draw(st.booleans()) or field.type == field.TYPE_GROUP:
        message.ClearField(field.name)
    if field.type == field.TYPE_MESSAGE:
        same = [other for other in others if other.DESCRIPTOR is field.message_type]
        if same:
            target = getattr(message, field.name)
            (target.add() if repeated(field) else target).CopyFrom(data.draw(st.sampled_from(same)))
    elif repeated(field):
        getattr(message, field.name).append(drawn(data, field))
    else:
        setattr(message, field.name, drawn(data, field))


@FUZZ
@given(st.data())
def test_forged_attributes(valid, data):
    """Attributes that the reader looks at, with values of every type."""
    path, model = valid
    forged = onnx.ModelProto()
    forged.CopyFrom(model)
    node = data.draw(st.sampled_from(list(forged.graph.node)))
    name = data.draw(
        st.sampled_from(["value", "value_ints", "value_int", "axes", "perm", "layout", "direction", "activations",
                         "clip", "input_forget", "hidden_size"])
    )  # fmt: skip
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    kinds = [
        NUMBERS, st.floats(width=32), st.text(max_size=5), st.lists(NUMBERS, min_size=1, max_size=3),
        st.lists(st.text(max_size=5), min_size=1, max_size=3), st.just(model.graph), st.just(model.graph.initializer),
        st.sampled_from([onnx.numpy_helper.from_array(np.array(value)) for value in (["a"], [1.5], 7, [])]),
    ]  # fmt: skip
    value = data.draw(data.draw(st.sampled_from(kinds)))
    del node.attribute[:]
    node.attribute.extend(kept)
    if value != []:
        node.attribute.append(onnx.helper.make_attribute(name, list(value) if isinstance(value, list) else value))
    path.write_bytes(forged.SerializeToString())
    reads(path)


def test_an_error_does_not_show_the_whole_file(path):
    """The library's own message has all of an attribute that refers to a function's argument."""
    model = with_constants(path)
    for node in model.graph.node:
        for attribute in node.attribute:
            attribute.ref_attr_name = "argument"
    path.write_bytes(model.SerializeToString())
    assert reads(path) is None


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


@pytest.mark.parametrize(
    "location",
    ["../secret", "up/secret", "link", "circle", "missing", "", ".", "/etc/passwd", "/dev/zero", "a\0b", "x" * 5000],
)
def test_data_outside_of_the_folder(path, location):
    forged_files(path, location=location)
    assert reads(path) is None


@pytest.mark.parametrize(
    "entries",
    [{"offset": "-1"}, {"offset": "99999999"}, {"offset": "x"}, {"length": str(1 << 40)}, {"length": "9" * 5000},
     {"length": "3"}, {"length": "\u0663"}],
)  # fmt: skip
def test_data_that_are_not_there(path, entries):
    forged_files(path, **entries)
    assert reads(path) is None


def test_data_beside_the_model(path):
    forged_files(path)
    assert reads(path) is not None


def test_a_reader_that_leaves_the_folder_is_noticed(path, monkeypatch):
    forged_files(path, location=str(path.parent.parent / "secret"), offset="0", length="4096")
    monkeypatch.setattr(DataFiles, "_find", lambda self, location: self._folder / location)
    with pytest.raises(AssertionError, match="outside of the folder"):
        reads(path)


@pytest.mark.parametrize("dims", [[1, 16, 1 << 40], [1, 16, 0], [1 << 62, 1 << 62, 4], [], [-1, -1, 4], [1, 16]])
def test_shapes_that_the_data_do_not_have(path, dims):
    model = plain(1, 1)(path)
    weights_of(model).dims[:] = dims
    path.write_bytes(model.SerializeToString())
    assert reads(path) is None


@pytest.mark.parametrize(("count", "is_read"), [(4, True), (2000, False)])
def test_layers_that_share_weights(path, count, is_read):
    """A small file may name far more weights than it holds."""
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
    path.write_bytes(model.SerializeToString())
    found = reads(path)
    assert (found is not None) == is_read and (not is_read or len(found.layers) == count)
