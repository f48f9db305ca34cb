import shutil

import pytest

from etalstm.sim import toolchain
from etalstm.sim.toolchain import ToolchainError


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


def test_builds_once_per_key(monkeypatch, tmp_path):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
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


def test_a_failed_build_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))

    def build(directory):
        toolchain.run_tool(["make", "-f", "/nowhere"], directory)

    with pytest.raises(ToolchainError, match=r"make failed with exit code 2$") as failed:
        toolchain.cached_build("kind", ["a"], build)
    assert "/nowhere: No such file or directory" in failed.value.log
    assert [path.suffix for path in (tmp_path / "kind").iterdir()] == [".lock"]
