"""``eta-lstm plan check``: how the model of the machine's checks says that programs end."""

from dataclasses import replace

import pytest

from etalstm.cli.main import run
from etalstm.plan.program.program import Program
from etalstm_hw.contract import Engine, Status
from etalstm_sim.checks.control import Refusal
from etalstm_sim.checks.model import Ending, Model
from etalstm_sim.checks.streams import Room, Streams

COMMON = ["plan", "check", "--preset", "sim", "--hidden", "64", "--batch", "16", "--steps", "9"]


@pytest.mark.parametrize(
    "options",
    [["--layers", "2"], ["--storage", "ms1", "--slices", "2"], ["--storage", "ms1-bf16", "--memory-budget", "770000"]],
    ids=" ".join,
)
def test_what_is_planned_ends(options, capsys):
    assert run([*COMMON, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 3 and all(line.endswith(": DONE") for line in lines)
    assert ("forward 1: DONE" in lines) == ("--memory-budget" in options)


@pytest.mark.parametrize("options", [["--storage", "ms1"], ["--slices", "2", "--delta-bits", "8"]], ids=" ".join)
def test_what_is_planned_of_integers_ends(options, capsys):
    assert run(["plan", "check", "--preset", "sim-int8", *COMMON[4:], "--arithmetic", "int8", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{name}: DONE" for name in ("forward", "backward", "update", "refresh")]


def test_says_where_a_program_is_refused(monkeypatch, capsys):
    halt = Program.halt

    def spoils(self):
        halt(self)
        self.words[1] = 15

    monkeypatch.setattr(Program, "halt", spoils)
    assert run(COMMON) == 1
    assert "forward: BAD_OPCODE at instruction 1 by the sequencer" in capsys.readouterr().out.splitlines()


def test_a_long_program_is_not_looked_at_to_its_end(monkeypatch, capsys):
    monkeypatch.setattr("etalstm.cli.plan.MOST_STEPS", 5)
    assert run(COMMON) == 1
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("forward: after 5 instructions: not known")
    assert lines[place + 1] == "  not certain: the program executes more than 5 instructions, and no more are looked at"


def test_a_long_program_is_refused_for_what_was_looked_at(monkeypatch, capsys):
    walked = Model.run
    found = Refusal(Status.BAD_ADDRESS, Engine.LOAD, 3)
    monkeypatch.setattr(Model, "run", lambda *args: replace(walked(*args), refusals=frozenset({found}), is_cut=True))
    assert run(COMMON) == 1
    expected = "forward: BAD_ADDRESS at instruction 3 by LOAD, after 10,000,000 instructions: not known"
    assert expected in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("refusals", "possible", "expected"),
    [
        ([(Status.BAD_FIELD, 2, Engine.LOAD)], [], "BAD_FIELD at instruction 2 by LOAD"),
        (
            [(Status.BAD_FIELD, 7, Engine.MAC), (Status.BAD_ADDRESS, 2, Engine.LOAD)],
            [Status.BAD_FIELD, Status.STUCK],
            "BAD_ADDRESS at instruction 2 by LOAD or BAD_FIELD at instruction 7 by MAC, possibly STUCK",
        ),
        ([], [Status.OVERFLOW, Status.BAD_ADDRESS], "DONE, possibly BAD_ADDRESS, possibly OVERFLOW"),
    ],
)
def test_names_each_end_once(monkeypatch, capsys, refusals, possible, expected):
    places = frozenset(Refusal(status, engine, number) for status, number, engine in refusals)
    monkeypatch.setattr(Model, "run", lambda self, words: Ending(places, frozenset(possible), 0))
    assert run(COMMON) == 1
    assert f"forward: {expected}" in capsys.readouterr().out.splitlines()


def test_streams_that_are_not_there_are_noticed(monkeypatch, capsys):
    monkeypatch.setattr(Streams, "append", lambda *args, **options: Room.ENOUGH)
    assert run([*COMMON, "--storage", "ms1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("backward: DONE, possibly BAD_STREAM")
    assert lines[place + 1] == "  BAD_STREAM is possible: other data may lie where a stream is read"
