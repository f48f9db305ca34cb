"""A checkpoint is whole or refused, and writing one never harms the one before."""

import errno
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from etalstm.errors import CheckpointError
from etalstm.train.checkpoint import Checkpoint, network_of, read, write

NETWORK = {"dataset": "digits", "hidden_size": 3, "slices": 2}
SHAPES = {"a": (2, 3), "b": (4,)}


def example(seed=0, network=NETWORK):
    generator = np.random.Generator(np.random.PCG64(seed))
    tensors = {name: generator.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    return Checkpoint(network, {"iteration": 7, "epoch": 1, "batch": 2}, generator.bit_generator.state, tensors)


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "c.safetensors", example())
    return tmp_path / "c.safetensors"


def test_what_was_written_is_read(path):
    back, expected = read(path, NETWORK, SHAPES), example()
    assert back.position == expected.position and back.generator == expected.generator
    assert all(np.array_equal(back.tensors[name], expected.tensors[name]) for name in SHAPES)


def test_equal_states_are_equal_bytes(path, tmp_path):
    write(tmp_path / "again", example())
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_every_truncation_is_refused(path):
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(CheckpointError, match=r"c\.safetensors"):
            read(path, NETWORK, SHAPES)


def test_every_damaged_byte_is_refused(path):
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x15
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"c\.safetensors"):
            read(path, NETWORK, SHAPES)


def test_another_network_is_refused_with_what_differs(path):
    with pytest.raises(CheckpointError, match="hidden_size is 3, here it is 4"):
        read(path, {**NETWORK, "hidden_size": 4}, SHAPES)
    with pytest.raises(CheckpointError, match=r"tensor b has shape \(4,\), expected \(5,\)"):
        read(path, NETWORK, {**SHAPES, "b": (5,)})


def test_a_checkpoint_from_before_slices_has_one(tmp_path):
    before = {name: value for name, value in NETWORK.items() if name != "slices"}
    write(tmp_path / "old", example(network=before))
    assert network_of(tmp_path / "old") == before | {"slices": 1}
    read(tmp_path / "old", before | {"slices": 1}, SHAPES)
    with pytest.raises(CheckpointError, match="its slices is 1, here it is 2"):
        read(tmp_path / "old", NETWORK, SHAPES)


def test_missing_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        read(tmp_path / "none", NETWORK, SHAPES)
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "foreign")
    with pytest.raises(CheckpointError, match="not a checkpoint of this program"):
        read(tmp_path / "foreign", NETWORK, SHAPES)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_keeps_the_one_before(path, monkeypatch, step):
    before = path.read_bytes()

    def fail(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match=f"no space.*{path}"):
        write(path, example(1))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
