"""Programs of which one field has another value."""

import json
from dataclasses import replace

import pytest

from etalstm.cli import run
from etalstm.hw import contract
from etalstm.hw.config import preset
from etalstm.hw.contract import Memory, Opcode, Source, Status, VectorOp, encode
from etalstm.sim.near_valid import Found, NearValid
from etalstm.sim.refusals import ENDS, Change, Expected, Sizes, expected

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
        (0, "memory", Memory.QUEUE, Status.BAD_FIELD),
        (0, "group", 2, Status.BAD_FIELD),
        (1, "op", 8, Status.BAD_FIELD),
        (1, "a_source", 3, Status.BAD_FIELD),
        (1, "b_source", Source.QUEUE, Status.BAD_FIELD),
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


def test_knows_the_end_of_the_window():
    size = 4 * SIZES.config.vector_beats
    assert said(0, "address", 100 - size, [100 - size]).statuses == ENDS
    assert said(0, "address", 101 - size, [10, 101 - size]) == Expected(frozenset({Status.BAD_ADDRESS}))


def test_what_a_loop_repeats_may_end_the_program_first():
    found = said(6, "length", 2)  # its body has the HALT
    assert Status.BAD_FIELD in found.statuses and not found.is_said
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


CASE = Found(0, None, Expected(frozenset({Status.DONE}), same=True), Status.DONE, True, True)


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"same": False}, False),
        ({"contained": False}, False),
        ({"status": Status.BAD_FIELD}, False),
        ({"status": Status.ABORTED}, False),
        ({"status": Status.ABORTED, "expected": Expected(ENDS)}, True),
        ({"status": Status.READ_ERROR, "expected": Expected(ENDS)}, False),
        ({"same": False, "expected": Expected(ENDS)}, True),
    ],
)
def test_tells_what_fits(changes, fits):
    assert replace(CASE, **changes).fits == fits


@pytest.fixture(scope="module")
def bench():
    made = NearValid("test", 0)
    yield made
    made.close()


def test_every_program_ends_as_the_contract_says(bench):
    found = [bench.run(number) for number in range(250)]
    assert [each for each in found if not each.fits] == []
    assert {each.expected.same for each in found} == {each.expected.is_said for each in found} == {True, False}
    assert {each.status for each in found} >= {Status.DONE, Status.BAD_FIELD, Status.BAD_ADDRESS}
    assert any(not each.same for each in found if each.status == Status.DONE)


def test_a_number_is_a_case(bench):
    assert bench.run(11) == bench.run(11) != bench.run(12)


def test_sees_what_lies_outside_of_the_windows(bench):
    simulation = bench._transport.simulation
    run_ = simulation.run

    def spoils(cycles):
        simulation.memory[-1] ^= 1
        return run_(cycles)

    simulation.run = spoils
    found = bench.run(3)
    simulation.run = run_
    assert not found.contained and not found.fits


def test_the_command_counts_and_replays(capsys):
    assert run(["bench", "programs", "--count", "20"]) == 0
    assert capsys.readouterr().out.endswith("0 of 20 do not fit the contract\n")
    assert run(["bench", "programs", "--count", "1", "--first", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["number"] == 7


def test_refuses(capsys):
    assert run(["bench", "programs", "--count", "0"]) == 2
    assert "count must be above 0" in capsys.readouterr().err
