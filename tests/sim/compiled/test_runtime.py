"""Objects of Verilator's library are compiled once per set of flags, wherever the library lies."""

import shutil

import pytest

from etalstm_sim.compiled import runtime
from etalstm_sim.compiled.toolchain import run_tool

MAKEFILE = """verilated.o: {root}/include/verilated.cpp
	g++ {flags} -I. -I{root}/include -c -o verilated.o {root}/include/verilated.cpp
main.o: {root}/share/main.cpp
	g++ {flags} -I. -c -o main.o {root}/share/main.cpp
"""
MAKE = ["make", "verilated.o", "main.o"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _model(folder, root, flags="-O1"):
    """Make a folder with a makefile that compiles a source of Verilator's library and one of somebody else."""
    for place, text in (("include/verilated.cpp", "int library = 1;"), ("share/main.cpp", '#include "model.h"')):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    folder.mkdir()
    (folder / "model.h").write_text("")
    (folder / "makefile").write_text(MAKEFILE.format(root=root, flags=flags))
    return folder


def test_make_compiles_what_is_not_of_the_library(tmp_path, cache):
    model = _model(tmp_path / "model", tmp_path / "verilator")
    runtime.place_runtime(MAKE, model, model)
    (line,) = runtime.compilations(MAKE, model)
    assert "main.cpp" in line
    run_tool(MAKE, model)
    assert (model / "verilated.o").exists()


def test_another_model_gets_the_same_object_and_other_flags_give_another(tmp_path, cache):
    for number, (root, flags) in enumerate([("one", "-O1"), ("one", "-O1"), ("elsewhere", "-O1"), ("one", "-O2")]):
        model = _model(tmp_path / str(number), tmp_path / root, flags)
        runtime.place_runtime(MAKE, model, model)
        shutil.rmtree(tmp_path / root)
    assert len(list((cache / "runtime").glob("*/verilated.o"))) == 2
