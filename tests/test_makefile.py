import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGETS = (
    "help",
    "setup",
    "train",
    "test",
    "test-torch",
    "formal",
    "coverage",
    "campaign",
    "lint",
    "verilog",
    "resources",
    "contract",
    "bench",
    "docs",
)


def test_make_alone_lists_every_target():
    listed = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(TARGETS)


def test_the_front_door_is_short():
    assert len((ROOT / "Makefile").read_text().splitlines()) < 60


def test_setup_removes_bytecode_that_has_no_sources_and_nothing_else(tmp_path):
    """It made packages of folders that an older version had: numba would find sim/coverage in the place of coverage."""
    stays = ["sim/etalstm_sim/__pycache__/a.pyc", "boards/notes/readme.txt", "hw/own/b.py"]
    goes = ["sim/coverage/__pycache__/a.pyc", "sw/train/parts/__pycache__/kernel.nbi", "hw/own/__pycache__/b.pyc"]
    for name in (*stays, *goes, "environment/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "environment/bin/python").write_text("#!/bin/sh\n")
    (tmp_path / "environment/bin/python").chmod(0o755)
    subprocess.run(["make", "setup", "PYTHON=true", "VENV=environment"], cwd=tmp_path, capture_output=True, check=True)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("[shb]*/**/*") if path.is_file()}
    assert left == set(stays)
    assert {path.name for path in (tmp_path / "sim").iterdir()} == {"etalstm_sim"}
