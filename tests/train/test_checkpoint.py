"""A checkpoint is whole and what it should be, or refused; writing one never harms the one before."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from etalstm.errors import CheckpointError
from etalstm.train.checkpoint import Checkpoint, Description, Identity, Origin, Position
from etalstm.train.sealed import check_same, digest

MODEL = Identity(task="classify", input_size=2, hidden_size=3, layers=1, outputs=4, tokens=0)
RUN = Origin(dataset="digits", data=7, batch=4, steps=5, slices=2, seed=0, optimizer="sgd")
CHOOSER = {"dense_for": [0], "words": [0.0], "deltas": [0.0], "iterations": 0}


def example(seed=0):
    generator = np.random.Generator(np.random.PCG64(seed))
    tensors = {name: generator.normal(size=shape).astype(np.float32) for name, shape in (("a", (2, 3)), ("b", (4,)))}
    position = Position(iteration=7, epoch=1, batch=2, chooser=CHOOSER)
    description = Description(model=MODEL, run=RUN, position=position, generator=generator.bit_generator.state)
    return Checkpoint(description, tensors)


@pytest.fixture
def path(tmp_path):
    example().write(tmp_path / "c.safetensors")
    return tmp_path / "c.safetensors"


def forge(path, change, tensors=None):
    """Write a checkpoint whose digest agrees, with a changed description."""
    description = {**example().description.model_dump(), "format": Checkpoint.FORMAT}
    tensors = tensors or example().tensors
    description = change(description) or description
    if isinstance(description, dict):
        description["sha256"] = digest(description, tensors)
    text = description if isinstance(description, str) else json.dumps(description)
    path.write_bytes(save(tensors, {Checkpoint.KEY: text}))


def test_what_was_written_is_read(path):
    back, expected = Checkpoint.read(path), example()
    assert back.description == expected.description
    assert all(np.array_equal(back.tensors[name], array) for name, array in expected.tensors.items())


def test_equal_states_are_equal_bytes(path, tmp_path):
    example().write(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_every_truncation_is_refused(path):
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(CheckpointError, match=r"c\.safetensors"):
            Checkpoint.read(path)


def test_every_damaged_byte_is_refused(path):
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x15
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"c\.safetensors"):
            Checkpoint.read(path)


def test_another_model_is_refused_with_what_differs(path):
    with pytest.raises(CheckpointError, match=r"c\.safetensors: .* hidden_size is 3, here it is 4"):
        check_same(path, dict(Checkpoint.read(path).description.model), {**dict(MODEL), "hidden_size": 4})
    with pytest.raises(CheckpointError, match=r"tensor b has shape \(4,\), expected \(5,\)"):
        Checkpoint.read(path).check_shapes(path, {"a": (2, 3), "b": (5,)})


def test_missing_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        Checkpoint.read(tmp_path / "none")
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "foreign")
    with pytest.raises(CheckpointError, match="not a checkpoint of this program"):
        Checkpoint.read(tmp_path / "foreign")


def put(*place, value):
    """Make a change of a description: at a place, a value; the value None takes the field away."""

    def change(description):
        for key in place[:-1]:
            description = description[key]
        if value is None:
            del description[place[-1]]
        else:
            description[place[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((put(field, value=None), f"{field} is missing") for field in ("model", "run", "position", "generator")),
        (put("model", value=[1]), "model: .*dict"),
        (put("model", "hidden_size", value="3"), "model.hidden_size: .*integer, got '3'"),
        (put("model", "cell", value="gru"), "model.cell: .*must be one of lstm, hlstm, got 'gru'"),
        (put("position", "iteration", value=-1), "position.iteration: .* got -1"),
        (put("position", "epoch", value=0.5), "position.epoch: .* got 0.5"),
        (put("position", "batch", value=True), "position.batch: .* got True"),
        (put("position", "best", "epochs", value=-1), "position.best.epochs: .* got -1"),
        (put("position", "delta_threshold", value=float("nan")), "position.delta_threshold: .* got nan"),
        (put("position", "luck", value=7), "position.luck is unknown here"),
        (put("generator", "bit_generator", value="MT19937"), "generator.bit_generator"),
        (put("generator", "state", "state", value=1 << 128), "generator.state.state"),
        (put("format", value=2), "by an older version of eta-lstm .format 2.; this one reads format 3"),
        (lambda found: found | {"format": 2, "version": "0.1.0"}, "by eta-lstm 0.1.0 .format 2.; this one reads"),
        (put("format", value=4), "by a newer version of eta-lstm .format 4."),
        (lambda description: "[" * 100_000, "more than 20 levels"),
        (lambda description: "[1]", "not a checkpoint of this program"),
        (lambda description: "{", "truncated or not a safetensors file"),
    ],
)
def test_a_forged_description_is_refused_by_file_and_field(tmp_path, change, message):
    forge(tmp_path / "forged", change)
    with pytest.raises(CheckpointError, match=f"forged: .*{message}"):
        Checkpoint.read(tmp_path / "forged")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "tensor a must be float32, got float64"),
        (np.array([0, np.nan], np.float32), "tensor a must be finite, but holds nan"),
        (np.array([np.inf], np.float32), "tensor a must be finite, but holds inf"),
    ],
)
def test_forged_tensors_are_refused(tmp_path, array, message):
    forge(tmp_path / "forged", lambda description: None, {"a": array})
    with pytest.raises(CheckpointError, match=f"forged: {message}"):
        Checkpoint.read(tmp_path / "forged")


def test_a_description_that_is_no_utf_8_is_refused(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b"digits", b"dig\xff\xfes"))
    with pytest.raises(CheckpointError, match="truncated or not a safetensors file"):
        Checkpoint.read(path)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_keeps_the_one_before(path, monkeypatch, step):
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match=r"No space left on device.*c\.safetensors"):
        example(1).write(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
