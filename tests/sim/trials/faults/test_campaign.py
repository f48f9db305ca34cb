"""Faults in the simulated machine, one a case."""

import json
from dataclasses import replace
from multiprocessing.connection import wait

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm_sim.simulation import Glitch
from etalstm_sim.trials.faults import campaign
from etalstm_sim.trials.faults.campaign import Bench, Outcome
from etalstm_sim.trials.faults.faulty import Hang, Kind, Moment

AT_ONCE = Moment(0, 0, 0)


@pytest.fixture(scope="module")
def bench():
    return Bench("test", 0)


def struck(bench, kind, moment, array=None, seed=1):
    """The outcome of a fault that is chosen, not drawn, in the whole memory or one array of it."""
    with bench.machine() as transport:
        session = bench.session(transport)
        targets = bench.targets(session)
        if array:
            (found,) = (each for each in session.plan.map.memory.arrays.values() if each.name == array)
            start = session.placement.window(0).start + found.first * session.plan.map.memory.vector_bytes
            targets = replace(targets, addresses=[range(start, start + 4)])
        transport.arm(kind, moment, targets, np.random.default_rng(seed))
        return (*bench.outcome(session), transport)


def test_no_case_hangs_or_crashes_and_each_kind_happens(bench):
    found = [bench.run(number) for number in range(60)]
    assert {each.kind for each in found} == set(Kind)
    assert not [each for each in found if each.outcome in (Outcome.HANG, Outcome.CRASH)]
    assert all(each.said for each in found if each.outcome is Outcome.DETECTED)
    assert all(each.struck for each in found if each.outcome is not Outcome.MISSED)
    assert sum(each.outcome is Outcome.MISSED for each in found) < 20


def test_a_number_is_a_case(bench):
    assert bench.run(7) == bench.run(7) != bench.run(8)


def test_a_wrong_weight_is_silent_and_a_wrong_instruction_is_not(bench):
    outcome, _, transport = struck(bench, Kind.BIT, AT_ONCE, array="bias0")
    assert outcome is Outcome.SILENT and transport.struck == "BIT"
    outcome, said, _ = struck(bench, Kind.SILENCE, AT_ONCE, array="bias0")
    assert outcome is Outcome.DETECTED and said.startswith("StuckError: ")


@pytest.mark.parametrize(
    ("kind", "moment", "array"),
    [
        (Kind.BIT, Moment(1, 0, 0), "columns0"),
        (Kind.BIT, Moment(0, 0, 0), "bias0"),
        (Kind.BIT, Moment(0, 0, 0), "x0"),
        *((Kind.LOST, Moment(0, 0, transfer), None) for transfer in (0, 2, 4, 21, 22)),
    ],
)
def test_a_scrub_detects_what_is_silent_without_one(bench, kind, moment, array):
    scrubbing = Bench("test", 0, scrub=True)
    assert struck(bench, kind, moment, array)[0] is Outcome.SILENT
    outcome, said, _ = struck(scrubbing, kind, moment, array)
    assert outcome is Outcome.DETECTED and said.startswith("DamagedMemoryError: ")
    assert scrubbing._cycles == bench._cycles and scrubbing._transfers == bench._transfers


@pytest.mark.parametrize(("kind", "error"), [(Kind.ABORT, "AbortedError"), (Kind.RESET, "DeviceError")])
def test_what_ends_a_program_is_named(bench, kind, error):
    outcome, said, _ = struck(bench, kind, Moment(1, 300, 0))
    assert outcome is Outcome.DETECTED and said.startswith(error)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind.name in Glitch.__members__])
def test_an_answer_that_goes_wrong_never_hangs_the_machine(bench, kind):
    drawn = (struck(bench, kind, Moment(1, 0, 0), seed=seed) for seed in range(10))
    outcome, said, transport = next(each for each in drawn if each[2].struck)
    assert transport.struck == kind.name
    if kind in (Kind.LOST_DATA, Kind.LOST_RESPONSE, Kind.DOUBLED_DATA):
        assert outcome is Outcome.DETECTED and said.startswith(("StuckError: ", "DamagedProgramError: "))


def test_a_fault_that_does_not_happen_changes_nothing(bench):
    outcome, _, transport = struck(bench, Kind.BIT, Moment(1000, 0, 0))
    assert outcome is Outcome.MASKED and transport.struck == ""


def test_a_machine_that_goes_on_for_ever_is_a_hang_and_any_other_exception_a_crash(bench, monkeypatch):
    def trained(error):
        def raising(session):
            raise error

        return raising

    for error, outcome in ((Hang("long"), Outcome.HANG), (IndexError("none"), Outcome.CRASH)):
        monkeypatch.setattr(bench, "train", trained(error))
        assert bench.outcome(None)[0] is outcome


def test_a_process_that_dies_or_is_late_is_replaced(monkeypatch):
    worker = campaign._Worker("no such preset", 0, range(5, 7))
    assert wait([worker.pipe], timeout=60)
    found = worker.take()
    assert (found.number, found.outcome, found.said) == (5, Outcome.CRASH, "the process ended with 1")
    assert worker.left == range(6, 7)
    monkeypatch.setattr(campaign, "SECONDS", -1)
    worker.stop()
    late = campaign._Worker("test", 0, range(2))
    assert late.is_late and late.take().outcome is Outcome.HANG
    late.stop()


def test_the_command_counts_outcomes_and_replays_a_case(capsys):
    assert run(["verify", "faults", "--count", "3", "--first", "5"]) == 0
    assert "detected    masked    silent    missed" in capsys.readouterr().out
    assert run(["verify", "faults", "--count", "1", "--first", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["number"] == 7


@pytest.mark.parametrize(("option", "message"), [("--count=0", "count must be above 0"), ("--seed=-1", "got 1000, -1")])
def test_refuses(option, message, capsys):
    assert run(["verify", "faults", option]) == 2
    assert message in capsys.readouterr().err
