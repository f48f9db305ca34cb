import fcntl
import os
import stat
import tempfile
from pathlib import Path

import pytest

from etalstm.errors import ToolchainError
from etalstm.host.cached_build import cache_directory, cache_for_programs, cached_build


def test_cache_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("ETALSTM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "eta-lstm"
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path / "chosen"))
    assert cache_directory() == tmp_path / "chosen"


@pytest.mark.parametrize("home", [None, "missing", "file"], ids=["no home", "a home that is not there", "no folder"])
def test_a_user_without_a_home_has_a_private_temporary_folder(monkeypatch, tmp_path, home):
    for name in ("ETALSTM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / str(home)))
    if home is None:
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    assert cache_directory() == tmp_path / f"eta-lstm-{os.geteuid()}"
    assert stat.S_IMODE(cache_directory().stat().st_mode) == 0o700
    cache_directory().chmod(0o777)
    with pytest.raises(ToolchainError, match="can be written by other users"):
        cache_directory()


def test_without_any_place_for_files_the_cache_is_asked_for(monkeypatch):
    for name in ("ETALSTM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: (_ for _ in ()).throw(FileNotFoundError("no folder usable")))
    with pytest.raises(ToolchainError, match=r"no place for the build cache .*no folder usable.*; set ETALSTM_CACHE"):
        cache_directory()


def test_programs_find_a_cache_where_there_is_no_home(monkeypatch, tmp_path):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with cache_for_programs():
        assert os.environ["XDG_CACHE_HOME"] == str(tmp_path)
    assert "XDG_CACHE_HOME" not in os.environ
    monkeypatch.setenv("XDG_CACHE_HOME", "mine")
    with cache_for_programs():
        assert os.environ["XDG_CACHE_HOME"] == "mine"


def test_an_impossible_cache_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ToolchainError, match="set ETALSTM_CACHE"):
        cache_directory()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o703])
def test_a_cache_that_others_can_write_is_refused(monkeypatch, tmp_path, mode):
    tmp_path.chmod(mode)
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"can be written by other users \(d.*w.\); set ETALSTM_CACHE"):
        cache_directory()


def test_a_cache_of_the_own_group_is_trusted_and_of_another_is_not(monkeypatch, tmp_path):
    tmp_path.chmod(0o775)
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.setattr(os, "getegid", lambda: tmp_path.stat().st_gid + 1)
    with pytest.raises(ToolchainError, match="can be written by other users"):
        cache_directory()


def test_a_cache_of_another_user_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ToolchainError, match=f"belongs to user {owner}, not {owner + 1}; set ETALSTM_CACHE"):
        cache_directory()


def test_a_build_that_others_can_write_is_not_used(cache):
    directory, _ = cached_build("kind", ["a"], write_result, tools)
    directory.chmod(0o777)
    with pytest.raises(ToolchainError, match=f"{directory.name} can be written by other users"):
        cached_build("kind", ["a"], write_result, tools)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    return tmp_path / "kind"


def tools():
    return "tools and their versions"


def write_result(directory):
    (directory / "result").write_text("done")


def test_builds_once_per_key(cache):
    calls = []

    def build(directory):
        calls.append(directory)
        (directory / "result").write_text("done")

    first, built = cached_build("kind", ["a"], build, tools)
    again, rebuilt = cached_build("kind", ["a"], build, tools)
    other, _ = cached_build("kind", ["b"], build, tools)
    assert (first, built, rebuilt) == (again, True, False)
    assert other != first
    assert len(calls) == 2
    assert (first / "result").read_text() == "done"


@pytest.mark.parametrize("content", ["don", "", "dona", None])
def test_a_damaged_result_is_built_again(cache, content):
    directory, _ = cached_build("kind", ["a"], write_result, tools)
    if content is None:
        (directory / "result").unlink()
    else:
        (directory / "result").write_text(content)
    assert cached_build("kind", ["a"], write_result, tools) == (directory, True)
    assert (directory / "result").read_text() == "done"
    assert cached_build("kind", ["a"], write_result, tools) == (directory, False)


@pytest.mark.parametrize("seal", ["", "[]", '{"result": 1}', "\xff", None])
def test_a_result_without_its_digests_is_built_again(cache, seal):
    directory, _ = cached_build("kind", ["a"], write_result, tools)
    path = directory / "sha256.json"
    path.unlink() if seal is None else path.write_text(seal)
    assert cached_build("kind", ["a"], write_result, tools)[1]


def test_what_came_later_is_not_looked_at(cache):
    directory, _ = cached_build("kind", ["a"], write_result, tools)
    (directory / "log").write_text("of a test")
    assert not cached_build("kind", ["a"], write_result, tools)[1]


def test_results_are_on_the_disk_before_they_have_their_name(cache, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.readlink(f"/proc/self/fd/{file}")), sync(file)))
    directory, _ = cached_build("kind", ["a"], write_result, tools)
    *inside, parent = map(Path, synced)
    assert parent == directory.parent
    assert {path.name for path in inside[:-1]} == {"result", "sha256.json"}
    assert all(path.parent.name.startswith(f"{directory.name}.") for path in inside[:-1])


def test_a_full_disk_names_the_cache(cache):
    def fill(_):
        Path("/dev/full").write_text("more than there is room for")

    with pytest.raises(ToolchainError, match=rf"cannot build in {cache}: .*No space left.*ETALSTM_CACHE"):
        cached_build("kind", ["a"], fill, tools)


def test_the_next_build_sweeps_what_a_killed_one_left(cache):
    directory, _ = cached_build("kind", ["a"], write_result, tools)
    left = cache / f"{directory.name}.killed"
    left.mkdir()
    (left / "object.o").write_text("")
    kept = cache / "0123.going-on"
    kept.mkdir()
    with (cache / "0123.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cached_build("kind", ["b"], write_result, tools)
    assert not left.exists() and kept.exists()
