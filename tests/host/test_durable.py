"""A file that is written is whole or not there."""

import errno
import os
import resource

import pytest

from etalstm.host.durable import naming, write_whole


def test_writes_text_and_bytes(tmp_path):
    write_whole(tmp_path / "text", "σ")
    write_whole(tmp_path / "bytes", b"\xff")
    assert (tmp_path / "text").read_text(encoding="utf-8") == "σ"
    assert (tmp_path / "bytes").read_bytes() == b"\xff"


@pytest.fixture
def small_files():
    """No file may be larger than 100 bytes: a write ends as on a full disk, after some of it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_cut_write_leaves_the_old_file_and_names_it(tmp_path, small_files):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(OSError, match=f"'{path}'"):
        write_whole(path, "x" * 1000)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_interrupt_leaves_nothing_beside(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "file", "new")
    assert os.listdir(tmp_path) == []


def test_an_error_without_a_name_gets_one(tmp_path):
    message = rf"\[Errno 28\] No space left on device: '{tmp_path}/log'"
    with pytest.raises(OSError, match=message), naming(tmp_path / "log"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
