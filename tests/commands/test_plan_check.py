"""``eta-lstm plan --check``: how the model of the machine's checks says that programs end."""

import pytest

from etalstm.cli import run
from etalstm.plan.program import Program
from etalstm.sim.checks.streams import Room, Streams

COMMON = ["plan", "--check", "--preset", "sim", "--hidden", "64", "--batch", "16", "--steps", "9"]


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


def test_says_where_a_program_is_refused(monkeypatch, capsys):
    halt = Program.halt

    def spoils(self):
        halt(self)
        self.words[1] = 15

    monkeypatch.setattr(Program, "halt", spoils)
    assert run(COMMON) == 1
    assert "forward: BAD_OPCODE, BAD_OPCODE at instruction 1 by the sequencer" in capsys.readouterr().out


def test_a_long_program_is_not_looked_at_to_its_end(monkeypatch, capsys):
    monkeypatch.setattr("etalstm.commands.plan_check.MOST_STEPS", 5)
    assert run(COMMON) == 0
    assert "forward: not known: more than 5 instructions are executed" in capsys.readouterr().out


def test_streams_that_are_not_there_are_noticed(monkeypatch, capsys):
    monkeypatch.setattr(Streams, "append", lambda *args, **options: Room.ENOUGH)
    assert run([*COMMON, "--storage", "ms1"]) == 0
    assert "backward: BAD_STREAM or DONE" in capsys.readouterr().out
