"""Programs of which one field has another value."""

import json
import os
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import pytest

from etalstm.cli.main import run
from etalstm.errors import DeviceError
from etalstm_hw import contract
from etalstm_hw.config import preset
from etalstm_hw.contract import Engine, Memory, Opcode, Source, Status, VectorOp, encode
from etalstm_sim.checks import engines, model
from etalstm_sim.checks.control import Control, Refusal
from etalstm_sim.checks.model import Ending
from etalstm_sim.checks.pairs import Pairs
from etalstm_sim.checks.refusals import ENDS, OPCODES, Change, Expected, Sizes, expected
from etalstm_sim.checks.streams import Reading, Room, Streams
from etalstm_sim.trials.programs import near_valid
from etalstm_sim.trials.programs.changes import NETWORKS
from etalstm_sim.trials.programs.near_valid import MACHINE, MODEL, NearValid
from etalstm_sim.trials.programs.outcome import Run
from tests.sim.trials.programs.wrong_models import holds, longer_windows

HALT, SIZES = encode(Opcode.HALT), Sizes(preset("test"), 100, 1)
LOAD = encode(Opcode.LOAD, outer=2, inner=2, memory=Memory.SCRATCH, address=10, wait_vector=3)
STORE = encode(Opcode.STORE, outer=1, inner=1, memory=Memory.SCRATCH)
VECTOR = encode(Opcode.VECTOR, op=VectorOp.ADD, outer=1, inner=1)
MAC = encode(Opcode.MAC, tiles=1)
COUNTS = dict.fromkeys(("blocks", "gates", "batch", "lanes", "last_lanes", "tiles", "tiles_per_channel"), 1)
CAST = encode(Opcode.CAST, **COUNTS)
TRANSPOSE = encode(Opcode.TRANSPOSE, outer=1, rows=2, lanes=2)
LOOP = encode(Opcode.LOOP, turns=2, length=1)
VALID = [LOAD, VECTOR, MAC, CAST, STORE, TRANSPOSE, LOOP, LOAD, HALT]


def said(number, field, value, addresses=(10,)):
    """What the contract says after a change of VALID."""
    opcode, fields = contract.decode(VALID[number])
    before = opcode if field == "opcode" else fields[field]
    return expected(VALID, Change("p", number, field, before, value), addresses, SIZES)


@pytest.mark.parametrize(
    ("number", "field", "value", "status"),
    [
        (0, "opcode", 15, Status.BAD_OPCODE),
        (0, "outer", 0, Status.BAD_FIELD),
        (0, "memory", Memory.SUMS, Status.BAD_FIELD),
        (0, "group", 2, Status.BAD_FIELD),
        (1, "op", max(VectorOp) + 1, Status.BAD_FIELD),
        (1, "a_source", 3, Status.BAD_FIELD),
        (1, "b_source", Source.SUMS, Status.BAD_FIELD),
        (2, "tiles", 2, Status.BAD_FIELD),
        (3, "gates", 5, Status.BAD_FIELD),
        (3, "batch", 100, Status.BAD_FIELD),
        (3, "wait_mac", 1, Status.BAD_FIELD),
        (4, "memory", Memory.BIAS, Status.BAD_FIELD),
        (5, "rows", 9, Status.BAD_FIELD),
        (8, "opcode", Opcode.STORE, Status.BAD_FIELD),  # its counts are 0
    ],
)
def test_knows_what_is_refused(number, field, value, status):
    assert said(number, field, value) == Expected(frozenset({status}))


INTEGERS = Sizes(preset("test-int8"), 100, 1)
ARRAY = {"blocks": 2, "batch": 2, "own": 2, "repeats": 1, "tiles_per_channel": 2}
VALID_INTEGERS = [
    encode(Opcode.SEND, **ARRAY), encode(Opcode.PRODUCT), LOAD, STORE,
    encode(Opcode.VECTOR, op=VectorOp.QUANTISE, bits=9, outer=1, inner=1), VECTOR, HALT,
]  # fmt: skip
SAME_BITS = Expected(frozenset({Status.DONE}), same=True)


@pytest.mark.parametrize(
    ("number", "field", "value", "text"),
    [
        (0, "opcode", Opcode.CAST, Status.BAD_OPCODE),
        (0, "own", 0, Status.BAD_FIELD),
        (0, "own", 9, Status.BAD_FIELD),
        (0, "batch", 3, Status.BAD_FIELD),
        (0, "blocks", 17, Status.BAD_FIELD),
        (0, "wait_load", 1, Status.BAD_FIELD),
        (0, "everyone", 1, SAME_BITS),
        (1, "weights", 1, Status.BAD_FIELD),
        (1, "sums", 4, Status.BAD_FIELD),
        (1, "sums", 8, Expected(ENDS)),
        (1, "backward", 1, SAME_BITS),
        (2, "memory", Memory.BIAS, Status.BAD_FIELD),
        (3, "memory", Memory.SUMS, Status.BAD_FIELD),
        (4, "bits", 7, Status.BAD_FIELD),
        (4, "bits", 8, Expected(ENDS)),
        (5, "bits", 7, SAME_BITS),
        (5, "op", max(VectorOp) + 1, Status.BAD_FIELD),
    ],
)
def test_knows_what_is_refused_of_integers(number, field, value, text):
    before = contract.decode(VALID_INTEGERS[number])[1].get(field, VALID_INTEGERS[number] & OPCODES)
    found = expected(VALID_INTEGERS, Change("p", number, field, before, value), (10,), INTEGERS)
    assert found == (text if isinstance(text, Expected) else Expected(frozenset({text})))


def test_knows_the_end_of_the_window():
    size = 4 * SIZES.config.vector_beats
    assert said(0, "address", 100 - size, [100 - size]).statuses == ENDS
    assert said(0, "address", 101 - size, [10, 101 - size]) == Expected(frozenset({Status.BAD_ADDRESS}))


def test_what_a_loop_repeats_may_end_the_program_first():
    found = said(6, "length", 2)  # its body has the HALT
    assert Status.BAD_FIELD in found.statuses and not found.is_definite
    assert said(6, "turns", 3).statuses == ENDS


@pytest.mark.parametrize(
    ("number", "field", "value"),
    [(0, "kind", 2), (0, "bf16", 1), (4, "threshold", 3), (2, "register", 4), (6, "wait_load", 9), (8, "everyone", 1),
     (2, "backward", 1), (1, "serial", 1), (3, "everyone", 1)],
)  # fmt: skip
def test_knows_what_nobody_looks_at(number, field, value):
    assert said(number, field, value) == Expected(frozenset({Status.DONE}), same=True)


def test_a_wait_may_be_stricter_and_nothing_else():
    stricter = Expected(frozenset({Status.DONE, Status.STUCK}), same=True)
    assert said(0, "wait_vector", 2) == said(0, "wait_load", 5) == stricter
    assert said(0, "wait_vector", 4) == said(0, "wait_vector", 0) == Expected(ENDS)


COUNT = 600  # cases that are run
RUN, SAME = Run(Status.DONE, 0, 0, same=True, contained=True), Expected(frozenset({Status.DONE}), same=True)


@pytest.mark.parametrize(
    ("changes", "text", "fits"),
    [
        ({}, SAME, True),
        ({"same": False}, SAME, False),
        ({"contained": False}, SAME, False),
        ({"status": Status.BAD_FIELD}, SAME, False),
        ({"status": Status.ABORTED}, SAME, False),
        ({"status": Status.ABORTED}, Expected(ENDS), True),
        ({"status": Status.READ_ERROR}, Expected(ENDS), False),
        ({"same": False}, Expected(ENDS), True),
    ],
)
def test_tells_what_fits_the_text(changes, text, fits):
    assert replace(RUN, **changes).is_as_expected(text) == fits


def ending(*refusals, possible=(), work=0):
    return Ending(frozenset(refusals), frozenset(possible), work)


PRECISE = Refusal(Status.BAD_ADDRESS, Engine.LOAD, 7, before=3)
LATE, OF_SEQUENCER = PRECISE._replace(is_late=True), Refusal(Status.BAD_FIELD, None, 7)


@pytest.mark.parametrize(
    ("status", "engine", "instruction", "said", "fits"),
    [
        (Status.DONE, 0, 0, ending(), True),
        (Status.STUCK, 5, 9, ending(), False),
        (Status.BAD_STREAM, 0, 0, ending(possible=[Status.BAD_STREAM]), True),
        (Status.ABORTED, 0, 0, ending(), False),
        (Status.ABORTED, 0, 0, ending(work=1_000_000), True),
        (Status.BAD_ADDRESS, 0, 3, ending(PRECISE), True),
        (Status.BAD_ADDRESS, 0, 2, ending(PRECISE), False),
        (Status.BAD_ADDRESS, 1, 3, ending(PRECISE), False),
        (Status.BAD_ADDRESS, 0, 2, ending(LATE), True),
        (Status.BAD_ADDRESS, 0, 5, ending(LATE), False),
        (Status.BAD_FIELD, len(Engine), 7, ending(OF_SEQUENCER), True),
        (Status.BAD_FIELD, len(Engine), 6, ending(OF_SEQUENCER), False),
    ],
)
def test_tells_what_fits_the_model(status, engine, instruction, said, fits):
    assert Run(status, engine, instruction, same=False, contained=True).is_as_modelled(said) == fits


@pytest.fixture(scope="module")
def bench():
    made = NearValid("test", 0, MACHINE)
    yield made
    made.close()


@pytest.fixture(scope="module")
def found(bench):
    return [bench.run(number) for number in range(COUNT)]


def test_text_model_and_machine_agree(found):
    assert [each for each in found if not each.fits] == []
    assert {each.expected.same for each in found} == {each.expected.is_definite for each in found} == {True, False}
    assert {each.run.status for each in found} >= {Status.DONE, Status.BAD_FIELD, Status.BAD_ADDRESS}
    assert {each.network for each in found} == set(NETWORKS)
    assert any(not each.run.same for each in found if each.run.status == Status.DONE)
    assert sum(each.ending.promised is not None for each in found) > 0.85 * len(found)


MUTANTS = {
    "longer windows": (engines.Engines, "__init__", longer_windows),
    "deeper memories": (engines, "depth_of", lambda given: lambda *args: 4 * given(*args)),
    "any tiles": (Pairs, "_check", lambda given: lambda *args: engines.Check()),
    "no pairs": (model._Walk, "_pair", lambda given: lambda *args: None),
    "any stream": (Streams, "read", lambda given: lambda *args, **options: Reading.WHOLE),
    "any log": (Streams, "append", lambda given: lambda *args, **options: Room.ENOUGH),
    "no loops": (Control, "_enters", lambda given: lambda *args, **options: False),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_model_is_noticed(found, monkeypatch, name):
    owner, member, change = MUTANTS[name]
    monkeypatch.setattr(owner, member, change(getattr(owner, member)))
    assert not holds(found)


def test_a_number_is_a_case(bench):
    assert bench.run(11) == bench.run(11) != bench.run(12)


def test_sees_what_lies_outside_of_the_windows(bench):
    simulation = bench._machines["groups"]._transport.simulation
    run_ = simulation.run

    def spoils(cycles):
        simulation.memory[-1] ^= 1
        return run_(cycles)

    number = next(number for number in range(99) if bench._cases.case(number).network == "groups")
    simulation.run = spoils
    found = bench.run(number)
    simulation.run = run_
    assert not found.run.contained and not found.fits


@pytest.mark.parametrize(("on", "name"), [("model", "test"), ("machine", "test"), ("model", "test-int8")])
def test_the_command_counts_and_replays(capsys, on, name):
    command = ["verify", "programs", "--preset", name, "--on", on]
    assert run([*command, "--count", "20"]) == 0
    assert capsys.readouterr().out.endswith("0 of 20 do not fit the contract\n")
    assert run([*command, "--count", "1", "--first", "7", "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert replayed["number"] == 7 and ("status" in replayed) == (on == "machine")


def test_several_processes_give_the_cases_of_one(bench, monkeypatch):
    monkeypatch.setattr(near_valid, "FEW", 10)
    monkeypatch.setattr(near_valid, "CHUNK", 7)
    alone = [bench._cases.case(number) for number in range(5, 25)]
    together = list(near_valid.near_valid(20, 0, 5, on=MODEL))
    assert [(each.number, each.change, each.ending) for each in together] == [
        (each.number, each.change, each.ending) for each in alone
    ]


class Dying:
    """A process that cannot make its bench, or dies in the first case."""

    in_start = False

    @classmethod
    def start(cls, *options):
        if cls.in_start:
            raise OSError("no bench")

    @staticmethod
    def run(number):
        os._exit(1)


class DyingInStart(Dying):
    in_start = True


@pytest.mark.parametrize("process", [Dying, DyingInStart])
def test_a_process_that_dies_is_an_error(monkeypatch, process):
    monkeypatch.setattr(near_valid, "FEW", 1)
    monkeypatch.setattr(near_valid, "_Process", process)
    monkeypatch.setattr(near_valid, "count_processors", lambda: 1)
    with pytest.raises(BrokenProcessPool):
        list(near_valid.near_valid(2, on=MODEL))


@pytest.fixture
def machines(monkeypatch):
    """Machines that do nothing: which ones were made, and which of them were closed."""
    made, closed = [], []

    class Fake:
        broken = None

        def __init__(self, network, seed):
            if self.broken == len(made):
                raise DeviceError("no more")
            made.append(self)

        def run(self, program, words):
            if self.broken == "run":
                raise DeviceError("fails")

        def close(self):
            closed.append(self)

    monkeypatch.setattr(near_valid, "Machine", Fake)
    return Fake, made, closed


def test_machines_are_closed_when_the_consumer_stops(machines):
    _, made, closed = machines
    cases = near_valid.near_valid(5)
    next(cases)
    assert not closed
    cases.close()
    assert len(closed) == len(made) == len(NETWORKS) and set(closed) == set(made)


@pytest.mark.parametrize("broken", ["run", 2])
def test_machines_are_closed_when_one_fails(machines, broken):
    fake, made, closed = machines
    fake.broken = broken
    with pytest.raises(DeviceError):
        list(near_valid.near_valid(5))
    assert len(made) == (2 if broken == 2 else len(NETWORKS)) and set(closed) == set(made)


def test_a_machine_that_cannot_be_trained_is_closed(bench, monkeypatch):
    class Transport:
        closed = False

        def close(self):
            self.closed = True

    transport = Transport()
    monkeypatch.setattr(near_valid, "SimTransport", lambda *args, **options: transport)
    with pytest.raises(AttributeError, match="read_register"):  # it has no registers
        near_valid.Machine(bench._cases.networks["groups"], 0)
    assert transport.closed


@pytest.mark.parametrize(
    ("options", "message"), [(["--count", "0"], "count must be above 0"), (["--on", "paper"], "on must be")]
)
def test_refuses(capsys, options, message):
    assert run(["verify", "programs", *options]) == 2
    assert message in capsys.readouterr().err
