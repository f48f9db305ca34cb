"""ONNX files from elsewhere are read, or refused with an error that names the file; nothing else happens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.interchange.onnx_models import path as path
from tests.formats.interchange.onnx_models import plain, reads, with_constants, with_files
from tests.fuzzing import FUZZ
from tests.fuzzing import little_memory as little_memory

onnx = pytest.importorskip("onnx", reason="onnx is not installed: the extra onnx")

NUMBERS = st.sampled_from([0, 1, -1, 2, 7, 1 << 20, 1 << 40, (1 << 62) - 1, -(1 << 63)])
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
