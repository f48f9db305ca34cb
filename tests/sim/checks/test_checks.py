"""The model of the machine's checks finds each kind of refusal."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from etalstm_hw.config import preset
from etalstm_hw.contract import Engine, Memory, Opcode, Source, Status, VectorOp, encode
from etalstm_sim import checks
from etalstm_sim.checks.model import Model
from etalstm_sim.checks.refusals import Sizes

SIZES = Sizes(preset("test"), 100, 1)
HALT = encode(Opcode.HALT)
SCRATCH = {"memory": Memory.SCRATCH, "outer": 1, "inner": 2, "inner_stride": 1}
STREAM = SCRATCH | {"compressed": 1, "address": 5}
TO_LOG = STREAM | {"first": 1, "start": 50, "end": 60}
COUNTS = dict.fromkeys(("blocks", "gates", "batch", "lanes", "last_lanes", "tiles", "tiles_per_channel"), 1)
PAIR = [encode(Opcode.CAST, **COUNTS, start=1, finish=1), encode(Opcode.MAC, tiles=1, start=1)]
ROWS = SCRATCH | {"outer": 4, "lanes": 1, "last_lanes": 1, "tiles_per_channel": 2}
VECTOR = {"op": VectorOp.ADD, "outer": 1, "inner": 2, "a_inner": 1, "b_inner": 1, "d_inner": 1}
LATER = frozenset({Status.BAD_STREAM, Status.DONE})
OF_INTEGERS = Sizes(preset("test-int8"), 100, 1)  # 8 sums and 2 vectors of weights of a row, 8 sequences of a stream
STREAMS = replace(OF_INTEGERS, config=replace(OF_INTEGERS.config, integer_streams=2))
ARRAY = {"blocks": 2, "batch": 2, "own": 2, "repeats": 1, "tiles_per_channel": 2}
SENT = [encode(Opcode.SEND, **ARRAY), encode(Opcode.PRODUCT, weights=2, sums=8)]


def ends(*words, sizes=SIZES, **options):
    return Model(sizes).ending([*words, HALT], **options)


def test_shares_with_the_hardware_what_it_says_and_nothing_else():
    parsed = [ast.parse(path.read_text()) for path in Path(checks.__file__).parent.glob("*.py")]
    found = {
        f"{node.module}.{name.name}" if node.module == "etalstm_hw" else node.module
        for node in (node for tree in parsed for node in ast.walk(tree))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("etalstm")
        for name in node.names
    }
    others = {module for module in found if not module.startswith("etalstm_sim.checks.")}
    assert others == {"etalstm_hw.contract", "etalstm_hw.contract.integers", "etalstm_hw.config"}
    assert not any(isinstance(node, ast.Import) and "etalstm" in ast.unparse(node) for t in parsed for node in t.body)


@pytest.mark.parametrize(
    ("opcode", "fields"),
    [
        (Opcode.LOAD, SCRATCH), (Opcode.STORE, SCRATCH), (Opcode.STORE, TO_LOG), (Opcode.LOAD_ROWS, ROWS),
        (Opcode.VECTOR, VECTOR), (Opcode.TRANSPOSE, {"outer": 1, "rows": 2, "lanes": 2}),
        (Opcode.ADVANCE, {"register0": 1, "amount0": 5}),
    ],
)  # fmt: skip
def test_says_nothing_against_what_is_right(opcode, fields):
    assert ends(encode(opcode, **fields)).promised == ends(*PAIR).promised == Status.DONE


@pytest.mark.parametrize(
    ("opcode", "fields", "changes", "status"),
    [
        (Opcode.LOAD, SCRATCH, {"address": 99}, Status.BAD_ADDRESS),
        (Opcode.LOAD, SCRATCH, {"lane_address": 255}, Status.BAD_ADDRESS),
        (Opcode.LOAD, SCRATCH, {"inner_stride": (1 << 13) - 1}, Status.BAD_ADDRESS),
        (Opcode.LOAD, SCRATCH, {"memory": Memory.BIAS, "inner": 17}, Status.BAD_ADDRESS),
        (Opcode.LOAD, SCRATCH, {"memory": Memory.SUMS}, Status.BAD_FIELD),
        (Opcode.LOAD, SCRATCH, {"group": 2}, Status.BAD_FIELD),
        (Opcode.STORE, SCRATCH, {"memory": Memory.WEIGHTS}, Status.BAD_FIELD),
        (Opcode.STORE, SCRATCH, {"address": 99}, Status.BAD_ADDRESS),
        (Opcode.STORE, SCRATCH, {"memory": Memory.SUMS, "lane_address": 63}, Status.BAD_ADDRESS),
        (Opcode.STORE, TO_LOG, {"end": 101}, Status.BAD_ADDRESS),
        (Opcode.STORE, TO_LOG, {"start": 60}, Status.OVERFLOW),
        (Opcode.LOAD_ROWS, ROWS, {"lanes": 5}, Status.BAD_FIELD),
        (Opcode.LOAD_ROWS, ROWS, {"outer": 3}, Status.BAD_FIELD),
        (Opcode.LOAD_ROWS, ROWS, {"channel": 2}, Status.BAD_ADDRESS),
        (Opcode.LOAD_ROWS, ROWS, {"map": 97}, Status.BAD_ADDRESS),
        (Opcode.LOAD_ROWS, ROWS, {"address": 99}, Status.BAD_ADDRESS),
        (Opcode.LOAD_ROWS, ROWS, {"memory": Memory.SUMS}, Status.BAD_FIELD),
        (Opcode.VECTOR, VECTOR, {"op": max(VectorOp) + 1}, Status.BAD_FIELD),
        (Opcode.VECTOR, VECTOR, {"a_source": 3}, Status.BAD_FIELD),
        (Opcode.VECTOR, VECTOR, {"b_source": Source.SUMS}, Status.BAD_FIELD),
        (Opcode.VECTOR, VECTOR, {"a_source": Source.PARAMETER, "a": 15}, Status.BAD_ADDRESS),
        (Opcode.VECTOR, VECTOR, {"d": 255}, Status.BAD_ADDRESS),
        (Opcode.TRANSPOSE, {"outer": 1, "rows": 2, "lanes": 2}, {"lanes": 5}, Status.BAD_FIELD),
        (Opcode.TRANSPOSE, {"outer": 1, "rows": 2, "lanes": 2}, {"target": 2}, Status.BAD_ADDRESS),
        (Opcode.TRANSPOSE, {"outer": 1, "rows": 2, "lanes": 2}, {"channel_beats": 100}, Status.BAD_ADDRESS),
        (Opcode.TRANSPOSE, {"outer": 1, "rows": 2, "lanes": 2}, {"lane_address": 256}, Status.BAD_ADDRESS),
        (Opcode.CAST, COUNTS, {"gates": 5}, Status.BAD_FIELD),
        (Opcode.CAST, COUNTS, {"batch": 33}, Status.BAD_FIELD),
        (Opcode.CAST, COUNTS, {"last_lanes": 4, "lane": 1}, Status.BAD_FIELD),
        (Opcode.CAST, COUNTS, {"first_sum": 32}, Status.BAD_FIELD),
        (Opcode.CAST, COUNTS, {"blocks": 3}, Status.BAD_ADDRESS),
        (Opcode.CAST, COUNTS, {"address": 100}, Status.BAD_ADDRESS),
    ],
)  # fmt: skip
def test_finds_what_an_engine_refuses(opcode, fields, changes, status):
    found = ends(encode(Opcode.LOAD, **SCRATCH), encode(opcode, **fields | changes))
    assert found.promised == status
    assert found.refusal.number == 1 and not found.is_cut


def test_names_engine_and_number():
    by_engine = ends(*[encode(Opcode.LOAD, **SCRATCH)] * 3, encode(Opcode.LOAD, **SCRATCH | {"address": 99})).refusal
    assert (by_engine.engine, by_engine.number, by_engine.before, by_engine.is_late) == (Engine.LOAD, 3, 3, False)
    maps = ends(encode(Opcode.LOAD_ROWS, **ROWS | {"channel": 2})).refusal
    assert (maps.engine, maps.number) == (None, 0)


@pytest.mark.parametrize(
    ("words", "status", "number"),
    [
        ([15], Status.BAD_OPCODE, 0),
        ([encode(Opcode.LOAD)], Status.BAD_FIELD, 0),
        ([encode(Opcode.CAST, **COUNTS, wait_mac=1)], Status.BAD_FIELD, 0),
        ([encode(Opcode.LOOP, turns=1, length=9)], Status.BAD_FIELD, 0),
        ([encode(Opcode.LOOP, turns=0, length=1)], Status.BAD_FIELD, 0),
        ([encode(Opcode.LOOP, turns=1, length=1)], Status.BAD_FIELD, 1),  # the HALT
        ([encode(Opcode.LOOP, turns=1, length=5 - n) for n in range(6)], Status.BAD_FIELD, 4),
        ([PAIR[0]], Status.STUCK, 1),
        ([PAIR[1]], Status.STUCK, 1),
    ],
)
def test_finds_what_the_sequencer_ends(words, status, number):
    found = ends(*words).refusal or next(iter(ends(*words).refusals))
    assert (found.status, found.engine, found.number) == (status, None, number)


def test_a_program_without_an_end_is_truncated():
    assert Model(SIZES).ending([encode(Opcode.LOAD, **SCRATCH)]).promised == Status.TRUNCATED


def test_executes_loops_and_registers():
    advance = encode(Opcode.ADVANCE, register0=1, amount0=30)
    loop = [encode(Opcode.LOOP, turns=4, length=2), encode(Opcode.LOAD, **SCRATCH, register=1), advance]
    assert ends(*loop).promised == Status.DONE
    found = ends(encode(Opcode.LOOP, turns=5, length=2), *loop[1:]).refusal
    assert (found.status, found.number, found.before) == (Status.BAD_ADDRESS, 1, 4)


def test_a_loop_of_many_turns_is_cut():
    found = ends(encode(Opcode.LOOP, turns=1 << 31, length=1), encode(Opcode.ADVANCE))
    assert found.is_cut and found.promised is None


@pytest.mark.parametrize(
    ("changes", "statuses"),
    [
        ({"tiles": 2}, {Status.BAD_FIELD}),
        ({"sums": 64}, {Status.BAD_ADDRESS}),
        ({"bias": 16}, {Status.BAD_ADDRESS}),
        ({"weights": 256}, {Status.BAD_ADDRESS, Status.DONE}),  # zeros are not sent
    ],
)
def test_checks_a_mac_with_its_cast(changes, statuses):
    assert ends(PAIR[0], encode(Opcode.MAC, **{"tiles": 1, "start": 1} | changes)).statuses == statuses


def test_a_mac_before_its_cast_may_wait_for_ever():
    assert ends(*PAIR[::-1]).statuses == {Status.DONE, Status.STUCK}


def test_a_part_that_nothing_ends_may_hold_back_others():
    part = encode(Opcode.LOAD, **SCRATCH, more=1)
    assert Status.STUCK in ends(part, encode(Opcode.STORE, **SCRATCH, wait_load=1)).statuses
    assert ends(part, encode(Opcode.LOAD, **SCRATCH)).promised == Status.DONE


@pytest.mark.parametrize(
    ("between", "read", "statuses"),
    [
        ([], STREAM, {Status.DONE}),
        ([], STREAM | {"inner": 1}, {Status.BAD_STREAM}),
        ([], STREAM | {"address": 6}, LATER),
        ([], STREAM | {"bf16": 1}, LATER),
        ([encode(Opcode.STORE, **SCRATCH, address=4)], STREAM, LATER),  # over the index
        ([encode(Opcode.STORE, **SCRATCH, address=50)], STREAM, LATER),  # over the log
        ([encode(Opcode.STORE, **SCRATCH, address=53)], STREAM, {Status.DONE}),
        ([encode(Opcode.STORE, **TO_LOG | {"address": 7})], STREAM, LATER),  # the log has begun anew
        ([encode(Opcode.STORE, **TO_LOG | {"address": 7, "start": 56})], STREAM, {Status.DONE}),  # elsewhere
        ([encode(Opcode.STORE, **TO_LOG | {"address": 7, "first": 0})], STREAM, {Status.DONE}),
        ([encode(Opcode.STORE, **TO_LOG | {"address": 7, "log": 1})], STREAM, LATER),
    ],
)
def test_follows_streams(between, read, statuses):
    assert ends(encode(Opcode.STORE, **TO_LOG), *between, encode(Opcode.LOAD, **read)).statuses == statuses


def test_knows_streams_of_programs_before():
    model = Model(SIZES)
    assert model.run([encode(Opcode.STORE, **TO_LOG), HALT]).promised == Status.DONE
    assert model.ending([encode(Opcode.LOAD, **STREAM), HALT]).promised == Status.DONE


def test_how_much_is_dropped_decides_whether_a_log_is_full():
    twice = [encode(Opcode.STORE, **TO_LOG | {"end": 53}), encode(Opcode.STORE, **TO_LOG | {"first": 0, "end": 53})]
    assert ends(*twice).statuses == {Status.DONE, Status.OVERFLOW}


def test_unordered_accesses_may_meet_half_a_stream():
    words = encode(Opcode.STORE, **TO_LOG), encode(Opcode.LOAD, **STREAM)
    assert ends(*words, unordered=1).statuses == LATER
    assert ends(words[0], encode(Opcode.LOAD, **SCRATCH), unordered=1).promised == Status.DONE


def test_of_integers_it_says_nothing_against_what_is_right():
    assert ends(*SENT, sizes=OF_INTEGERS).promised == ends(*SENT, sizes=STREAMS).promised == Status.DONE
    for op in VectorOp:
        word = encode(Opcode.VECTOR, **VECTOR | {"op": op, "a_source": Source.SUMS, "bits": 8})
        assert ends(word, sizes=OF_INTEGERS).promised == Status.DONE


def test_products_of_one_kind_are_unknown_to_the_other():
    for words, sizes in (SENT, SIZES), (PAIR, OF_INTEGERS):
        assert [ends(word, sizes=sizes).promised for word in words] == [Status.BAD_OPCODE] * 2


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"blocks": 0}, Status.BAD_FIELD),
        ({"batch": 0}, Status.BAD_FIELD),
        ({"own": 0}, Status.BAD_FIELD),
        ({"repeats": 0}, Status.BAD_FIELD),
        ({"tiles_per_channel": 0}, Status.BAD_FIELD),
        ({"wait_vector": 1}, Status.BAD_FIELD),
        ({"wait_store": 1}, Status.DONE),
        ({"batch": 3}, Status.BAD_FIELD),  # one that no stream gets
        ({"own": 3}, Status.DONE),
        ({"own": 9}, Status.BAD_FIELD),  # there are sums for 8
        ({"own": 8, "blocks": 4}, Status.DONE),
        ({"own": 8, "blocks": 4, "wide": 1}, Status.BAD_FIELD),  # larger than the buffer
        ({"channel": 1, "tile": 1}, Status.BAD_ADDRESS),  # its second block is of channel 2
        ({"address": 97}, Status.BAD_ADDRESS),
        ({"address": 96}, Status.DONE),
        ({"address": 96, "wide": 1}, Status.BAD_ADDRESS),
    ],
)
def test_finds_what_is_wrong_with_a_send(changes, status):
    found = ends(*SENT, encode(Opcode.SEND, **ARRAY | changes), encode(Opcode.PRODUCT), sizes=OF_INTEGERS)
    assert found.statuses == {status}
    if found.refusal and not changes.keys() & {"wait_vector"} and 0 not in changes.values():
        assert (found.refusal.engine, found.refusal.number, found.refusal.before) == (Engine.CAST, 2, 1)


def test_each_stream_gets_sequences():
    more = encode(Opcode.SEND, **ARRAY | {"batch": 4}), SENT[1]
    assert ends(*more, sizes=STREAMS).promised == Status.DONE
    assert ends(*more, sizes=OF_INTEGERS).promised == Status.BAD_FIELD


@pytest.mark.parametrize(
    ("array", "product", "statuses"),
    [
        ({}, {"weights": 3}, {Status.BAD_FIELD}),
        ({}, {"sums": 12}, {Status.BAD_FIELD}),
        ({}, {"sums": 48}, {Status.DONE}),
        ({}, {"sums": 56}, {Status.BAD_ADDRESS}),
        ({"repeats": 4}, {}, {Status.DONE}),
        ({"repeats": 5}, {}, {Status.BAD_ADDRESS}),
        ({}, {"weights": 192}, {Status.DONE}),  # 32 elements from row 96 on, of 128
        ({}, {"weights": 194}, {Status.BAD_ADDRESS, Status.DONE}),  # a digit that is zero is not sent
        ({}, {"weights": 256}, {Status.BAD_ADDRESS}),
        ({"repeats": 2}, {"rows": 96}, {Status.DONE}),
        ({"repeats": 2}, {"rows": 97}, {Status.BAD_ADDRESS, Status.DONE}),
        ({"repeats": 2}, {"rows": 128}, {Status.BAD_ADDRESS}),
    ],
)
def test_checks_a_product_with_its_send(array, product, statuses):
    words = encode(Opcode.SEND, **ARRAY | array), encode(Opcode.PRODUCT, **product)
    assert ends(*words, sizes=OF_INTEGERS).statuses == statuses


def test_a_misplaced_product_is_refused_without_its_send_but_not_before_its_turn():
    misplaced = encode(Opcode.PRODUCT, sums=4)
    assert ends(misplaced, sizes=OF_INTEGERS).promised == Status.BAD_FIELD
    assert ends(SENT[1], misplaced, sizes=OF_INTEGERS).statuses == {Status.STUCK}
    refused = encode(Opcode.SEND, **ARRAY | {"batch": 9})
    assert len(ends(refused, misplaced, sizes=OF_INTEGERS).refusals) == 2


def test_a_product_without_a_send_waits_for_ever():
    assert ends(*SENT, SENT[0], sizes=OF_INTEGERS).promised == Status.STUCK
    assert ends(*SENT[::-1], sizes=OF_INTEGERS).statuses == {Status.DONE, Status.STUCK}


@pytest.mark.parametrize(
    ("opcode", "fields", "status"),
    [
        (Opcode.LOAD, SCRATCH | {"memory": Memory.BIAS}, Status.BAD_FIELD),
        (Opcode.LOAD_ROWS, ROWS | {"memory": Memory.BIAS}, Status.BAD_FIELD),
        (Opcode.STORE, SCRATCH | {"memory": Memory.SUMS}, Status.BAD_FIELD),
        (Opcode.VECTOR, VECTOR | {"op": VectorOp.QUANTISE, "bits": 7}, Status.BAD_FIELD),
        (Opcode.VECTOR, VECTOR | {"op": VectorOp.QUANTISE, "bits": 15}, Status.DONE),
        (Opcode.VECTOR, VECTOR | {"op": VectorOp.CONVERT}, Status.DONE),  # it looks at no bits
        (Opcode.VECTOR, VECTOR | {"op": VectorOp.ADD_SCALED, "bits": 1}, Status.DONE),  # the number of a parameter
        (Opcode.VECTOR, VECTOR | {"op": VectorOp.ADD_SCALED, "b_source": Source.PARAMETER}, Status.BAD_FIELD),
        (Opcode.VECTOR, VECTOR | {"op": max(VectorOp) + 1}, Status.BAD_FIELD),
        (Opcode.VECTOR, VECTOR | {"op": VectorOp.NOTED_CLAMPED, "b_source": Source.SUMS}, Status.DONE),
        (Opcode.VECTOR, VECTOR | {"op": VectorOp.NOTED_CLAMPED, "a": 512}, Status.BAD_ADDRESS),
        (Opcode.VECTOR, VECTOR | {"a_source": Source.SUMS, "a": 64}, Status.BAD_ADDRESS),
    ],
)
def test_knows_the_memories_and_operations_of_integers(opcode, fields, status):
    assert ends(encode(opcode, **fields), sizes=OF_INTEGERS).promised == status


def test_reads_the_sums_of_all_streams():
    word = encode(Opcode.VECTOR, **VECTOR | {"op": VectorOp.CONVERT, "a_source": Source.SUMS, "a": 126})
    assert ends(word, sizes=OF_INTEGERS).promised == Status.BAD_ADDRESS
    assert ends(word, sizes=STREAMS).promised == Status.DONE
