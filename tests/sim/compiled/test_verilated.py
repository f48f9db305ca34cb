"""How far a build is, as its log tells it."""

import pytest

from etalstm_sim.compiled import runtime, verilated
from etalstm_sim.compiled.toolchain import run_tool

MAKE = "make: Entering directory 'objects'"
COMPILATION = "c++  -I.  -MMD -DVERILATOR=1 -O3 -c -o one.o one.cpp"
LINK = "c++    one.o two.o   -shared     -o library.so"


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

    monkeypatch.setattr(verilated.time, "monotonic", lambda: Clock.now)
    return Clock


def test_counts_compilations_and_nothing_else(clock):
    told = []
    watch = verilated._count_compilations(3, told.append)
    for line in (MAKE, COMPILATION, LINK, COMPILATION, MAKE, COMPILATION, LINK):
        clock.now += 10
        watch(line + "\n")
    assert told == [f"compiling {n} of 3 files" for n in (1, 2, 3)]


def test_tells_now_and_then_and_at_the_end(clock):
    told = []
    watch = verilated._count_compilations(40, told.append)
    for _ in range(40):
        clock.now += 0.25
        watch(COMPILATION)
    assert told == [f"compiling {n} of 40 files" for n in (1, 9, 17, 25, 33, 40)]


def test_the_makefile_says_how_many_there_are(tmp_path):
    (tmp_path / "makefile").write_text("library.so: one.o two.o\n\tcc -o $@ $^\n%.o:\n\tcc -O3 -c -o $@ $*.c\n")
    assert len(runtime.compilations(["make"], tmp_path)) == 2
    assert not list(tmp_path.glob("*.o"))


def test_lines_come_while_the_tool_runs(tmp_path):
    (tmp_path / "makefile").write_text(
        "all:\n\t@echo first\n\t@for turn in `seq 100`; do test -e seen && exit 0; sleep 0.1; done; exit 1\n"
    )
    lines = []

    def watch(line):
        lines.append(line)
        (tmp_path / "seen").touch()

    assert run_tool(["make", "-s"], tmp_path, watch) == "first\n"
    assert lines == ["first\n"]
