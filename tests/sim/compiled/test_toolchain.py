import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from etalstm.errors import ToolchainError
from etalstm_sim.compiled import toolchain


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    return tmp_path / "kind"


def test_names_what_to_install(monkeypatch):
    find = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name in ("g++", "perl") else find(name, **more))
    with pytest.raises(ToolchainError, match=r"apt-get install g\+\+ perl"):
        toolchain.verilator_environment()


def test_ignores_the_flags_of_an_outer_make(monkeypatch):
    monkeypatch.setenv("MAKEFLAGS", " -j2 --jobserver-auth=3,4")
    assert "jobserver" not in toolchain.verilator_environment().get("MAKEFLAGS", "")


def test_makefiles_run_this_python_whatever_they_call_it(tmp_path):
    script = "import sys; print(sys.executable)"
    (tmp_path / "makefile").write_text(f"PYTHON3 = nowhere\nall:\n\t@$(PYTHON3) -c '{script}'\n")
    assert toolchain.run_tool(toolchain.make_command("-s"), tmp_path).splitlines()[-1] == sys.executable


def test_a_failed_build_leaves_nothing(cache):
    def build(directory):
        toolchain.run_tool(["make", "-f", "missing.mk"], directory)

    with pytest.raises(ToolchainError, match=r"make failed with exit code 2$") as failed:
        toolchain.compiled_build("kind", ["a"], build)
    assert "missing.mk: No such file or directory" in failed.value.log
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_a_cache_whose_name_has_a_blank_is_filled_from_a_folder_that_make_accepts(monkeypatch, tmp_path):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path / "a cache"))
    used = []

    def build(directory):
        used.append(directory)
        (directory / "a.mk").write_text("$(words $(CURDIR)):; touch $@\n")
        toolchain.run_tool(["make", "-f", "a.mk", "1"], directory)

    directory, built = toolchain.compiled_build("kind", ["a"], build)
    assert built and {path.name for path in directory.iterdir()} >= {"1", "a.mk", "build.log"}
    assert directory.is_relative_to(tmp_path / "a cache") and not used[0].exists()


def test_verilator_gets_a_name_without_blanks(monkeypatch, tmp_path):
    package = tmp_path / "a package" / "verilator"
    (package / "bin").mkdir(parents=True)
    monkeypatch.setattr(toolchain, "_package_folder", lambda: package)
    monkeypatch.setattr(toolchain, "_system_version", lambda: (0,))
    environment = toolchain.verilator_environment()
    root = Path(environment["VERILATOR_ROOT"])
    assert len(str(root).split()) == 1 and root.resolve() == package.resolve()
    assert environment["VERILATOR_BIN"] == str(root / "bin" / "verilator_bin")


def test_without_such_a_name_it_says_what_to_set(monkeypatch, tmp_path):
    monkeypatch.setattr(toolchain.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(toolchain, "_PLAIN", re.compile("nothing"))
    with pytest.raises(ToolchainError, match="set TMPDIR to a folder without blanks"):
        toolchain._plain_folder()
    assert not list(tmp_path.iterdir())


KILLED = """
import sys
from pathlib import Path
from etalstm_sim.compiled.toolchain import run_tool
from etalstm.host.cached_build import cached_build

def build(directory):
    run_tool(["sh", "-c", "sleep 600 & echo $! > {pid}; wait"], directory)

cached_build("kind", ["a"], build, str)
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
