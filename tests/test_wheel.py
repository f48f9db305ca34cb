"""The wheel has all that is needed, also in a folder whose name has blanks, and far from the sources."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"etalstm": "sw", "etalstm_hw": "hw", "etalstm_sim": "sim", "etalstm_boards": "boards"}
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    [path] = folder.iterdir()
    return path


def run(*command, cwd):
    """Run a program that sees neither the checkout nor this process's virtual environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(map(str, command), cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_wheel_has_every_file_of_the_four_packages(wheel):
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {path.relative_to(ROOT / PACKAGES[package]) for package in PACKAGES for path in files_of(package)}
    assert packed == set(map(str, sources))
    assert {f"{package}/py.typed" for package in PACKAGES} <= packed


def files_of(package):
    folder = ROOT / PACKAGES[package] / package
    return (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")


def test_digits_are_learnt_from_a_wheel_in_a_folder_with_blanks(wheel, tmp_path):
    """On the machine and on golden, with the same bits. The simulator comes from the cache if another test built it."""
    home = tmp_path / "a home" / "virtual environment"
    venv.create(home, with_pip=True)
    run(home / "bin" / "python", *PIP, "install", "--no-compile", wheel, cwd=tmp_path)
    where = "import etalstm, etalstm_boards, etalstm_hw, etalstm_sim as sim; print(etalstm.__file__, sim.__file__)"
    assert run(home / "bin" / "python", "-c", where, cwd=tmp_path).count(str(home)) == 2
    for device in ("golden", "sim"):
        arguments = ["--dataset", "digits", "--device", device, "--preset", "test", "--hidden", "5", "--batch", "8"]
        arguments += ["--iterations", "3", "--evaluation-batches", "1", "--out", "runs/" + device]
        run(home / "bin" / "eta-lstm", "train", *arguments, cwd=home.parent)
    golden, sim = (
        (home.parent / "runs" / device / "checkpoint.safetensors").read_bytes() for device in ("golden", "sim")
    )
    assert golden == sim
