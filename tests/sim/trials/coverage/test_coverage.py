"""What is counted has run, and what has not run is a hole."""

import json
from collections import Counter

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.errors import DeviceError
from etalstm.network.architecture import ARCHITECTURES
from etalstm_hw.config import preset
from etalstm_hw.contract import PAGE_BYTES, Engine, Opcode, Status, VectorOp, encode
from etalstm_hw.contract.image import image_of
from etalstm_sim.compiled.library import build_library, design
from etalstm_sim.simulation import Fault
from etalstm_sim.trials.coverage import measure
from etalstm_sim.trials.coverage.bins import (
    ANY,
    FLOATS,
    INTEGERS,
    NO_OPCODE,
    ONE_STREAM,
    STALLS,
    TWO_GROUPS,
    Bin,
    all_bins,
    impossible,
)
from etalstm_sim.trials.coverage.cases import Case, cases
from etalstm_sim.trials.coverage.handmade import LOADED, PAGES, Program
from etalstm_sim.trials.coverage.handmade_integers import program_of
from etalstm_sim.trials.coverage.measure import Coverage
from etalstm_sim.trials.coverage.recorder import blamed, executed
from etalstm_sim.trials.coverage.runs import BASE, STALL, Machine
from etalstm_sim.trials.coverage.summary import Summary
from etalstm_sim.trials.coverage.variants import ANOTHER_CHANNEL, OF_A_LATER_STREAM
from tests.plan.machine import InterpretedAccelerator

CONFIG, CONFIG_OF_INTEGERS = preset("test"), preset("test-int8")
HALT, LOAD, STORE, VECTOR = (encode(Opcode[name]) for name in ("HALT", "LOAD", "STORE", "VECTOR"))
LOOP_OF_TWO = encode(Opcode.LOOP, turns=2, length=2)
ALL_OF_INTEGERS = {place: 1 for place in all_bins(INTEGERS) if impossible(place) is None}
ALL = {place: 1 for place in all_bins(FLOATS) if impossible(place) is None}


@pytest.fixture(scope="module")
def library():
    return build_library(design(CONFIG), coverage=True)


@pytest.fixture(scope="module")
def library_of_integers():
    return build_library(design(CONFIG_OF_INTEGERS), coverage=True)


@pytest.fixture
def recorded(library):
    """Run a case of the handmade program; give what was counted, by opcode, variant and status."""
    machines = []

    def make(case, name="swing", groups=1, stall="none"):
        hits = Counter()
        machines.append(Machine("test", library, stall, hits, 1))
        machines[-1].run_case(case, ARCHITECTURES[name], groups)
        return hits

    yield make
    for machine in machines:
        machine.close()


def whole(groups=1):
    return Case("whole", Program(CONFIG, groups).words(), Status.DONE)


def of(hits, status):
    return {place.opcode: count for place, count in hits.items() if place.variant == ANY and place.status == status}


def test_every_instruction_of_a_program_that_is_done_is_counted_once(recorded):
    opcodes = Counter(opcode.name for opcode, _ in Program(CONFIG, 1).instructions.values())
    hits = recorded(whole())
    assert of(hits, "DONE") == opcodes
    assert {(place.status, place.stall, place.architecture) for place in hits} == {("DONE", "none", "skips zeros")}


@pytest.mark.parametrize(
    ("name", "groups", "architecture"),
    [("dynamic", 1, "sends zeros"), ("static", 1, "fixed shares"), ("swing", 2, TWO_GROUPS)],
)
def test_the_settings_are_those_of_the_registers(recorded, name, groups, architecture):
    assert {place.architecture for place in recorded(whole(groups), name, groups)} == {architecture}


def test_the_stall_is_that_of_the_memory(recorded):
    assert {place.stall for place in recorded(whole(), stall="reorders")} == {"reorders"}


def test_of_a_program_that_got_stuck_only_what_was_dispatched_is_counted(recorded):
    silent = Case("silence", Program(CONFIG, 1).words(), Status.STUCK, Fault.NEVER, LOADED)
    found = of(recorded(silent), "STUCK")
    assert found["LOAD"] >= 1 and found["LOOP"] == 4
    assert "TRANSPOSE" not in found and "HALT" not in found


def test_an_error_is_counted_for_the_instruction_that_it_is_the_error_of(recorded):
    case = Case("bad", Program(CONFIG, 1).words(transpose={"rows": 0}), Status.BAD_FIELD)
    assert set(recorded(case)) == {Bin("TRANSPOSE", ANY, "BAD_FIELD", "none", "skips zeros")}


def test_a_program_that_ends_otherwise_than_it_must_is_an_error(recorded):
    with pytest.raises(DeviceError, match="wrong: the program ended with BAD_FIELD, expected DONE"):
        recorded(Case("wrong", Program(CONFIG, 1).words(load={"outer": 0}), Status.DONE))


@pytest.mark.parametrize("stall", STALLS)
def test_every_case_ends_with_its_status_and_together_they_have_all(library, stall):
    hits = Counter()
    machine = Machine("test", library, stall, hits, 2)
    for case in cases(Program(CONFIG, 1)):
        machine.run_case(case, ARCHITECTURES["swing"], 1)
    machine.close()
    found = {(hit.opcode, hit.variant, hit.status) for hit in hits}
    assert found == {(each.opcode, each.variant, each.status) for each in ALL}


@pytest.mark.parametrize("stall", STALLS)
def test_every_case_of_integers_ends_with_its_status_and_together_they_have_all(library_of_integers, stall):
    hits = Counter()
    machine = Machine("test-int8", library_of_integers, stall, hits, 2)
    for case in cases(program_of(CONFIG_OF_INTEGERS, 1)):
        machine.run_case(case, ARCHITECTURES["swing"], 1)
    machine.close()
    assert {hit.architecture for hit in hits} == {ONE_STREAM}
    found = {(hit.opcode, hit.variant, hit.status) for hit in hits}
    places = [place for place in ALL_OF_INTEGERS if place.architecture == ONE_STREAM]
    assert found == {(each.opcode, each.variant, each.status) for each in places}


@pytest.mark.parametrize("stall", STALLS)
def test_the_handmade_program_of_integers_leaves_what_the_interpreter_leaves(library_of_integers, stall):
    leaves_what_the_interpreter_leaves("test-int8", library_of_integers, "swing", 1, stall)


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize(("name", "groups"), FLOATS.settings)
def test_the_handmade_program_leaves_what_the_interpreter_leaves(library, name, groups, stall):
    leaves_what_the_interpreter_leaves("test", library, name, groups, stall)


def leaves_what_the_interpreter_leaves(machine_name, library, name, groups, stall):
    config = preset(machine_name)
    machine, words = Machine(machine_name, library, stall, Counter(), 1), program_of(config, groups).words()
    memory, size = machine.transport.simulation.memory, config.channels * PAGES * PAGE_BYTES
    machine.run_case(Case("whole", words, Status.DONE), ARCHITECTURES[name], groups)
    found = memory[BASE : BASE + size].copy()
    machine.fill_windows()
    interpreted = InterpretedAccelerator(config)
    interpreted.set_windows(BASE, PAGES * PAGE_BYTES)
    interpreted.set_groups(groups)
    interpreted.transport.write_memory(BASE, memory[BASE : BASE + size])
    interpreted.run(interpreted.load(image_of(words), 0))
    assert not np.array_equal(found, memory[BASE : BASE + size])
    np.testing.assert_array_equal(found, interpreted.transport.read_memory(BASE, size))
    machine.close()


def opcodes_of(words, dispatched, halted):
    return [opcode.name for opcode, _ in executed(words, dispatched, halted, CONFIG)]


def test_what_was_dispatched_tells_how_far_a_program_came():
    words = [LOOP_OF_TWO, LOAD, STORE, VECTOR, HALT]
    assert opcodes_of(words, 0, False) == []
    assert opcodes_of(words, 1, False) == ["LOOP", "LOAD"]
    assert opcodes_of(words, 4, False) == ["LOOP", "LOAD", "STORE"]
    assert opcodes_of(words, 5, False) == ["LOOP", "LOAD", "STORE", "VECTOR"]
    assert opcodes_of(words, 5, True) == ["LOOP", "LOAD", "STORE", "VECTOR", "HALT"]


def test_variants_are_told_from_the_fields():
    inner = [encode(Opcode.LOOP, turns=1, length=1), encode(Opcode.CAST, start=1, batch_outer=1)]
    found = dict(executed([LOOP_OF_TWO, *inner, HALT], 2, True, CONFIG))
    assert found[Opcode.CAST] == {"by batch", "begins sums", "leaves sums open"}
    assert found[Opcode.LOOP] == {"one turn", "inside one"}


@pytest.mark.parametrize(
    ("status", "engine", "place", "expected"),
    [
        (Status.BAD_FIELD, 0, 1, "LOAD"),  # the second LOAD that the engine was given
        (Status.BAD_OPCODE, 5, 3, NO_OPCODE),
        (Status.READ_ERROR, 5, 0, NO_OPCODE),  # of the sequencer: it could not read the instruction
        (Status.READ_ERROR, 5, 2, "LOAD_ROWS"),
    ],
)
def test_the_instruction_that_is_blamed_is_the_one_that_the_registers_name(status, engine, place, expected):
    assert blamed([LOAD, LOAD, encode(Opcode.LOAD_ROWS), 15], status, engine, place, CONFIG) == expected


@pytest.mark.parametrize(
    ("engine", "place", "named"),
    [
        (Engine.LOAD, 3, "instruction 3 of LOAD"),  # one too many: a LOAD_ROWS counts as one LOAD
        (Engine.MAC, 0, "instruction 0 of MAC"),
        (len(Engine), 4, "instruction 4 of the sequencer"),
    ],
)
def test_an_instruction_that_there_is_not_is_not_blamed(engine, place, named):
    with pytest.raises(DeviceError, match=f"ended with BAD_FIELD; the machine names {named}, .* none such"):
        blamed([LOAD, LOAD, encode(Opcode.LOAD_ROWS), HALT], Status.BAD_FIELD, engine, place, CONFIG)


def test_each_memory_that_is_counted_can_be_made():
    assert tuple(STALL) == STALLS


def test_what_was_not_hit_is_a_hole_and_what_cannot_be_hit_is_none():
    assert not Summary(ALL).holes
    gone = Bin("CAST", "narrow", "DONE", "stalls", "preset sim")
    assert Summary({**ALL, gone: 0}).holes == [gone]
    assert len(Summary({}).holes) == len(ALL) == len(Summary({}).possible)
    assert impossible(Bin("VECTOR", ANY, "READ_ERROR", "none", TWO_GROUPS))
    assert impossible(Bin("TRANSPOSE", ANOTHER_CHANNEL, "DONE", "none", TWO_GROUPS))
    assert impossible(Bin("TRANSPOSE", ANOTHER_CHANNEL, "DONE", "none", "skips zeros")) is None


def test_machines_of_integers_have_bins_of_their_own():
    opcodes = {place.opcode for place in ALL_OF_INTEGERS}
    assert {"SEND", "PRODUCT"} <= opcodes and not {"MAC", "CAST"} & opcodes
    assert not {"SEND", "PRODUCT"} & {place.opcode for place in ALL}
    operations = {place.variant for place in ALL_OF_INTEGERS if place.opcode == "VECTOR"}
    assert operations >= {f"op {op.name}" for op in VectorOp}
    assert impossible(Bin("VECTOR", OF_A_LATER_STREAM, "DONE", "none", ONE_STREAM))
    assert Summary(ALL_OF_INTEGERS, INTEGERS).holes == Summary(ALL_OF_INTEGERS, INTEGERS).contradictions == []


@pytest.mark.parametrize(
    ("array", "product", "variant"),
    [
        ({"own": 8}, {}, "up to the last sum"),
        ({"own": 1, "blocks": 4}, {"weights": 128}, "up to the last row"),
        ({"own": 1, "repeats": 2}, {}, "the same rows again"),
        ({"own": 1, "repeats": 2}, {"rows": 1}, "other rows each time"),
    ],
)
def test_edges_of_a_product_are_told_from_its_send(array, product, variant):
    send = encode(Opcode.SEND, **{"blocks": 1, "batch": 1, "repeats": 1} | array)
    words = [send, encode(Opcode.PRODUCT, **product), HALT]
    found = dict(executed(words, 2, True, CONFIG_OF_INTEGERS))
    assert variant in found[Opcode.PRODUCT] and found[Opcode.SEND] >= {"one sequence", "of one digit"}
    others = dict(
        executed([encode(Opcode.SEND, blocks=1, batch=1, own=1, repeats=1), *words[1:]], 2, True, CONFIG_OF_INTEGERS)
    )
    assert variant not in others[Opcode.PRODUCT]


def test_the_tables_count_what_was_hit_of_what_can_be():
    found = Summary({**ALL, Bin("LOAD", ANY, "DONE", "none", TWO_GROUPS): 0})
    assert found.of_statuses()["LOAD", "DONE"] == (17, 18)
    assert found.of_statuses()["LOAD", "OVERFLOW"] == (0, 0)
    assert found.of_variants()["TRANSPOSE", ANOTHER_CHANNEL, TWO_GROUPS] == (0, 0)
    assert found.of_variants()["CAST", "narrow", TWO_GROUPS] == (3, 3)


def test_what_is_hit_against_a_rule_contradicts_it():
    strange = Bin("MAC", ANY, "OVERFLOW", "none", "skips zeros")
    assert Summary({**ALL, strange: 1}).contradictions == [strange]


@pytest.fixture
def pretend(monkeypatch):
    def measured(hits):
        toggles = {"top.stored": {"count[0]": (3, 3), "count[1]": (1, 0)}}
        monkeypatch.setattr(measure, "measure", lambda kind, seed, log: Coverage(Counter(hits), toggles, 7, 1000))

    return measured


def test_the_command_measures_machines_of_integers(pretend, capsys):
    pretend(ALL_OF_INTEGERS)
    assert run(["verify", "coverage", "--preset", "test-int8"]) == 0
    out = capsys.readouterr().out
    assert f"{len(ALL_OF_INTEGERS):,} of {len(ALL_OF_INTEGERS):,} bins hit" in out
    assert "Bits of the control logic, preset test-int8" in out and " PRODUCT " in out


def test_the_command_refuses_a_preset_whose_settings_do_not_vary(capsys):
    assert run(["verify", "coverage", "--preset", "sim-int8"]) == 2
    assert "preset must be test or test-int8, got 'sim-int8'" in capsys.readouterr().err


def test_the_command_succeeds_without_a_hole_and_lists_bits(pretend, capsys):
    pretend(ALL)
    assert run(["verify", "coverage", "--toggles", "top.stored"]) == 0
    out = capsys.readouterr().out
    assert f"{len(ALL):,} of {len(ALL):,} bins hit" in out
    assert "1 of 2 bits toggled, 0 excused" in out
    assert "Bits of the control logic, preset test" in out
    assert "not toggled in top.stored: count[1]" in out


@pytest.mark.parametrize("kind", ["hole", "hit, but impossible"])
def test_the_command_names_what_is_wrong_and_fails(pretend, capsys, kind):
    place = Bin("HALT", ANY, "DONE" if kind == "hole" else "OVERFLOW", "none", TWO_GROUPS)
    pretend({**ALL, place: int(kind != "hole")})
    assert run(["verify", "coverage"]) == 1
    assert f"{kind}: {', '.join(place)}" in capsys.readouterr().out


def test_the_command_gives_json(pretend, capsys):
    pretend({})
    assert run(["verify", "coverage", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert len(found["holes"]) == found["bins"] == len(ALL)
    assert found["toggles"]["top.stored"]["untoggled"] == ["count[1]"]


def test_the_command_refuses_a_module_that_there_is_not(capsys):
    assert run(["verify", "coverage", "--toggles", "adder"]) == 2
    assert "toggles must be one of broadcaster," in capsys.readouterr().err
