"""Data that lie beside an ONNX model: what is read of which files, and what is refused."""

import os
import signal

import numpy as np
import pytest

from etalstm.errors import InterchangeError
from etalstm.formats.interchange.onnx_graph import DataFiles
from etalstm.formats.interchange.onnx_read import read_onnx
from tests.formats.interchange.onnx_models import DATA, forged_files, reads, weights_of, with_files
from tests.formats.interchange.onnx_models import path as path
from tests.fuzzing import little_memory as little_memory

onnx = pytest.importorskip("onnx", reason="onnx is not installed: the extra onnx")

TEBIBYTE = 1 << 40  # more than any memory; a sparse file of this size takes no space


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


@pytest.mark.parametrize("location", [None, "../secret", "link", "up/secret", "../code.py"])
def test_a_reader_that_leaves_the_folder_is_noticed(path, monkeypatch, location):
    """A location None is the absolute path of the secret."""
    (path.parent.parent / "code.py").write_bytes(bytes(4096))
    forged_files(path, location=location or str(path.parent.parent / "secret"))
    monkeypatch.setattr(DataFiles, "_find", lambda self, location: self._folder / location)
    with pytest.raises(AssertionError, match="outside of the folder"):
        reads(path)


def gone(data):
    """Leave nothing where the data were."""


def into_link(data):
    data.symlink_to(data.parent.parent / "secret")


def into_fifo(data):
    os.mkfifo(data)


def into_folder(data):
    data.mkdir()


@pytest.fixture
def little_time():
    """Stop a reader that waits for the other end of a FIFO."""

    def stop(*_):
        raise TimeoutError("the reader waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("change", "reason"),
    [(gone, "No such file"), (into_link, "symbolic link"), (into_fifo, "no regular file"), (into_folder, "directory")],
)
def test_data_that_change_after_the_check(path, monkeypatch, little_time, change, reason):
    """The path is checked, then the file is exchanged. No bytes are asked for, as a FIFO has none."""
    model = with_files(path)
    tensor = weights_of(model)
    tensor.dims[:] = [1, 16, 0]
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value=DATA)
    tensor.external_data.add(key="length", value="0")
    path.write_bytes(model.SerializeToString())
    find = DataFiles._find

    def exchanged(self, location):
        found = find(self, location)
        found.unlink()
        change(found)
        return found

    monkeypatch.setattr(DataFiles, "_find", exchanged)
    with pytest.raises(InterchangeError, match=reason) as caught:
        read_onnx(path)
    assert str(path) in str(caught.value) and DATA in str(caught.value)


def test_a_data_file_that_cannot_be_opened(path, monkeypatch):
    """The superuser may open everything, so the refusal is made up."""
    forged_files(path)
    opened = os.open

    def refuse(name, *rest, **options):
        if str(name).endswith(DATA):
            raise PermissionError(13, "Permission denied", name)
        return opened(name, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InterchangeError, match="Permission denied") as caught:
        read_onnx(path)
    assert str(path) in str(caught.value) and DATA in str(caught.value)


def test_a_link_to_a_file_in_the_folder_is_followed(path):
    forged_files(path)
    (path.parent / DATA).rename(path.parent / "elsewhere")
    (path.parent / DATA).symlink_to("elsewhere")
    assert reads(path) is not None


@pytest.mark.parametrize("length", [None, TEBIBYTE, 8])
def test_data_of_another_length_than_the_shape_are_not_read(path, monkeypatch, length):
    """A length None is the rest of the file."""
    model = with_files(path)
    tensor = weights_of(model)
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value="large")
    if length is not None:
        tensor.external_data.add(key="length", value=str(length))
    path.write_bytes(model.SerializeToString())
    (path.parent / "large").touch()
    os.truncate(path.parent / "large", TEBIBYTE)
    with pytest.raises(InterchangeError, match=rf"have {length or TEBIBYTE} bytes, its shape needs 256"):
        read_onnx(path)


def test_data_without_a_length_go_to_the_end_of_the_file(path):
    model = with_files(path)
    tensor = weights_of(model)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    content = (path.parent / DATA).read_bytes()[int(entries["offset"]) :][: int(entries["length"])]
    (path.parent / "rest").write_bytes(bytes(12) + content)
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value="rest")
    tensor.external_data.add(key="offset", value="12")
    expected = reads(path).layers[0][0].weight_ih
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(reads(path).layers[0][0].weight_ih, expected)
