"""Fetching, repeating and dispatching a program: see hw/program/."""

from etalstm.model.machine import state
from etalstm.model.machine.axi import beat_at, give_transfer, step_reader, take_beat, takes_transfer
from etalstm.model.machine.latencies import PROGRAM_RING
from etalstm.model.machine.queues import has_room, push, room_at
from etalstm.model.machine.rows import UNDER_WAY, offers_rows, step_rows, supplied_at
from etalstm.model.machine.state import CAST, LOAD, MAC, NEVER, STORE, VECTOR, compiled, record
from etalstm_hw.contract import ADDRESS_REGISTERS, LOOP_DEPTH, Counter, Opcode

HALT, LOOP, ADVANCE, LOAD_ROWS = (int(code) for code in (Opcode.HALT, Opcode.LOOP, Opcode.ADVANCE, Opcode.LOAD_ROWS))
PROGRAM = int(Counter.PROGRAM_BEATS)

ENGINE = record(
    "length", "asking", "asked_count", "following", "ready", "behind", "pending", "dropped", "beats",  # buffer
    "number", "taken", "taken_number", "depth",  # loops
    "buffered", "buffered_number", "checked", "checked_number", "pairs",  # dispatch, what waits in front of it
    "out", "out_slot", "following_slot", "leaving",
    "halted_at", "sent_at", "streams", "blocks", "row_lanes", "arrived", "starved", "cycle",
    registers=ADDRESS_REGISTERS, dispatched=CAST + 1,
)  # fmt: skip
"""The ring of instructions, the loop that is at hand, the registers of the dispatch and the buffers beside it.

``out`` instructions have passed the dispatch and are not handed on, two at most: ``out_slot``, then ``following_slot``.
``leaving`` is set if the first of them has waited for a cycle, and so lies in the buffer behind the dispatch.
``arrived`` is set when the first instruction of a section, or the end of a loop's body, is the next; then ``cycle`` is
the machine's time. ``starved`` is set when no instruction is ready that could be taken.
"""

LOOP_BODY = record("start", "end", "turns")  # a loop that is executed: where its body begins and ends, and turns to go
STACK_DEPTH = LOOP_DEPTH + 1


@compiled
def _ask(cycle, engine, reader, sizes):
    """Ask for the next burst of the program in every other cycle; give how many instructions are asked for now."""
    burst = state.BURST_BEATS // sizes.instruction_beats
    if not engine.asking:
        left = engine.length - engine.following
        engine.asking = left != 0
        engine.asked_count = min(left, burst - engine.following % burst)
        return 0
    waiting = engine.buffered + engine.leaving
    room = engine.ready + engine.pending + waiting + burst <= PROGRAM_RING // 2
    if not room or engine.dropped + engine.pending + burst > PROGRAM_RING or not takes_transfer(reader):
        return 0
    beats = sizes.instruction_beats
    give_transfer(reader, engine.following * beats, engine.asked_count * beats, cycle)
    engine.following += engine.asked_count
    engine.asking = 0
    return engine.asked_count


@compiled
def _arrive(cycle, engine, reader, sizes, counted):
    """Take a beat; give whether an instruction is whole with it."""
    if beat_at(reader) > cycle:
        return False
    take_beat(reader)
    counted[PROGRAM] += 1
    engine.beats = (engine.beats + 1) % sizes.instruction_beats
    return engine.beats == 0


@compiled
def _resolve(engine, m, p):
    """Make an instance of the instruction that is checked: its address and its waits."""
    entry, dispatched = p.table[engine.checked_number], engine.dispatched
    slot = entry.engine * UNDER_WAY + dispatched[entry.engine] % UNDER_WAY
    m.instances[slot] = entry
    instance = m.instances[slot]
    instance.address += engine.registers[instance.register]
    if instance.wait_load:
        instance.wait_load = dispatched[LOAD] + 1 - instance.wait_load
    if instance.wait_mac:
        instance.wait_mac = dispatched[MAC] + 1 - instance.wait_mac
    if instance.wait_vector:
        instance.wait_vector = dispatched[VECTOR] + 1 - instance.wait_vector
    if instance.wait_store:
        instance.wait_store = dispatched[STORE] + 1 - instance.wait_store
    dispatched[instance.engine] += 1
    if instance.engine == CAST:
        instance.given_number = engine.blocks
        engine.blocks += instance.blocks
    elif instance.compressed:
        instance.given_number = engine.streams
        if not p.streams.size:  # of streams that follow each other, each begins anywhere in a burst
            instance.stream_start = instance.start = instance.text % state.BURST_BEATS
            instance.first = 1
        engine.streams += 1
    return slot


@compiled
def _hand_on(cycle, engine, m, p, sizes):
    """Hand the instruction at the output on; tell whether anything moved."""
    if not engine.out:
        return False
    instance = m.instances[engine.out_slot]
    if instance.opcode == LOAD_ROWS:
        moved, leaves = step_rows(cycle, m, p, sizes, m.wakes)
        if leaves:
            _leave(engine)
        return moved
    if not has_room(m.queues, instance.engine, sizes.instruction_queue, cycle):
        return False
    push(m.queues, m.wakes, engine.out_slot, instance.engine, cycle, sizes.modelled)
    engine.sent_at = cycle
    _leave(engine)
    return True


@compiled
def _leave(engine):
    """Forget the instruction that was handed on."""
    engine.out -= 1
    engine.out_slot = engine.following_slot


@compiled
def _pass(engine, slot):
    """Put an instruction behind those that have passed the dispatch."""
    if engine.out:
        engine.following_slot = slot
    else:
        engine.out_slot = slot
    engine.out += 1


@compiled
def _dispatch(cycle, engine, m, p, sizes):
    """Move the instruction that is checked to the output; tell whether anything moved."""
    occupied = engine.out
    moved = _hand_on(cycle, engine, m, p, sizes)
    engine.leaving = 1 if occupied and engine.out == occupied else 0
    if not engine.checked:
        return moved
    entry = p.table[engine.checked_number]
    if entry.opcode == ADVANCE:
        engine.pairs += 1
        if engine.pairs >= entry.pairs:
            for pair in range(entry.pairs):
                engine.registers[entry.registers[pair]] += entry.amounts[pair]
            engine.registers[0] = 0
            engine.pairs = engine.checked = 0
        return True
    if entry.opcode == HALT:
        if not occupied:
            engine.halted_at = min(engine.halted_at, cycle)
        return moved or (occupied and not engine.out)
    if occupied < 2:
        _pass(engine, _resolve(engine, m, p))
        engine.checked = 0
        return True
    return moved


@compiled
def _check(engine, p):
    """Give the dispatch the next instruction; tell whether anything moved. One that must wait goes to the buffer."""
    ready = engine.taken and p.table[engine.taken_number].opcode != LOOP
    if engine.checked:
        if not ready or engine.buffered:
            return False
        engine.buffered, engine.buffered_number, engine.taken = 1, engine.taken_number, 0
        return True
    if engine.buffered:
        engine.checked, engine.checked_number, engine.buffered = 1, engine.buffered_number, 0
        return True
    if ready:
        engine.checked, engine.checked_number, engine.taken = 1, engine.taken_number, 0
    return ready


@compiled
def _loop(engine, m, p):
    """Take an instruction from the ring, or go on with a loop.

    Give whether one was taken, how far to go back, and whether anything moved.
    """
    if engine.taken and p.table[engine.taken_number].opcode == LOOP:
        entry, body = p.table[engine.taken_number], m.stack[engine.depth]
        body.start, body.end, body.turns = engine.number, engine.number + entry.length, entry.turns
        engine.taken = 0
        engine.depth += 1
        engine.arrived = 1
        return False, 0, True
    if engine.depth and engine.number == m.stack[engine.depth - 1].end:
        body = m.stack[engine.depth - 1]
        body.turns -= 1
        engine.arrived = 1
        if body.turns == 0:
            engine.depth -= 1
            return False, 0, True
        engine.number = body.start
        return False, body.end - body.start, True
    if engine.taken:
        return False, 0, False
    if not engine.ready:
        engine.starved = 1
        return False, 0, False
    engine.taken, engine.taken_number = 1, engine.number
    engine.number += 1
    bounded = len(p.boundaries) > 1
    if bounded and p.table[engine.taken_number].opcode != LOOP and p.boundaries[engine.number]:
        engine.arrived = 1
    return True, 0, True


@compiled
def step_sequencer(cycle, m, p, sizes):
    """Move what is fetched on by a stage."""
    engine, reader = m.sequencer[0], m.readers[state.FETCH]
    following = step_reader(cycle, reader, m.ports[state.FETCH], sizes.latency)
    was_asking, beats = engine.asking, reader.free
    asked = _ask(cycle, engine, reader, sizes)
    whole = _arrive(cycle, engine, reader, sizes, m.counted)
    moved = _dispatch(cycle, engine, m, p, sizes)
    moved = _check(engine, p) or moved
    took, back, looped = _loop(engine, m, p)
    stored = whole and engine.dropped == 0
    _account(engine, took, back, asked, stored, whole)
    if moved or looped or asked or reader.free != beats or engine.asking != was_asking:
        following = cycle + 1
    following = min(following, max(cycle + 1, beat_at(reader)))
    if engine.out:
        following = min(following, _blocked_until(cycle, m, sizes))
    m.wakes[0, state.SEQUENCER] = following


@compiled
def _blocked_until(cycle, m, sizes):
    """Give when to try again to hand an instruction on. A queue that lets one go wakes the sequencer, too."""
    instance = m.instances[m.sequencer[0].out_slot]
    if instance.opcode == LOAD_ROWS and not offers_rows(m.rows[0]):
        return supplied_at(m.rows[0], instance, m.done)
    depth, engine = sizes.instruction_queue, instance.engine
    if engine != CAST:
        room = has_room(m.queues, engine, depth, cycle + 1)
        return cycle + 1 if room else max(room_at(m.queues[:, engine], depth), cycle + 1)
    return cycle + 1 if has_room(m.queues, engine, depth, cycle + 2) else NEVER


@compiled
def _account(engine, took, back, asked, stored, whole):
    """Update the counts of instructions in the ring."""
    if back and back > engine.behind:
        engine.dropped += engine.pending + asked - (1 if whole else 0)
        engine.ready = engine.behind = engine.pending = 0
        engine.following = engine.number
        engine.asking = 0
        return
    engine.ready += (1 if stored else 0) - (1 if took else 0) + back
    engine.behind = min(engine.behind + (1 if took else 0), PROGRAM_RING // 2) - back
    engine.pending += asked - (1 if stored else 0)
    engine.dropped -= 1 if whole and not stored else 0
