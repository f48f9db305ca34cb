"""The broadcaster from its block buffers on: see etalstm_hw.broadcast.walker and etalstm_hw.broadcast.emitter."""

from etalstm.model.machine.compute import BEGINS, EMPTY, LAST, NULL
from etalstm.model.machine.queues import all_show_room, give_scalar, room_at
from etalstm.model.machine.state import EMITTER, FETCHER, NEVER, compiled, record, wake
from etalstm_hw.contract import MOST_GATES

ENGINE = record(
    "walking", "walk_bank", "walk_patch", "asked", "asked_bank", "asked_patch", "asked_null",  # walker
    "rest", "rest_bank", "rest_patch", "rest_null", "rest_mask", "remaining",  # what is left of a patch
    "picked", "picked_bank", "picked_inner", "picked_zero", "picked_starts", "picked_ends", "picked_null",
    "read", "read_bank", "read_inner", "read_zero", "read_starts", "read_ends", "read_null", "read_empty",
    "out", "out_inner", "out_flags", "sweeping", "sweep_bank", "count", "sums", fresh=2,
)  # fmt: skip
"""Walker, the three stages after the pick, and the sums that have begun."""


@compiled
def _lowest(mask):
    bit = 0
    while not mask >> bit & 1:
        bit += 1
    return bit


@compiled
def _inner(bank, patch, bit, sizes):
    """Give the inner number of a bit of a patch."""
    if not bank.batch_outer:
        return bank.first_sum + patch % bank.chunks * sizes.chunk + bit
    first = bank.lane // sizes.beat_words
    beats = bank.patches // bank.batch
    lane = (first + patch % beats) * sizes.beat_words + bit // MOST_GATES
    return bank.first_sum + (lane - bank.lane) * bank.gates + bit % MOST_GATES


@compiled
def _send(cycle, engine, banks, scalars, begun, fetcher, sizes, wakes):
    """Move the stages behind the pick; tell whether a pick can follow."""
    ready = engine.out and all_show_room(scalars, sizes.scalar_fifo, cycle)
    if ready:
        give_scalar(cycle, scalars, engine.out_inner, engine.out_flags, wakes)
    advance = not engine.out or ready
    if not advance:
        return False
    sweeping = engine.sweeping
    bank = banks[engine.read_bank]
    hold = False
    if not engine.read:
        engine.out = 0
    else:
        begins = not engine.read_null and not engine.read_empty and not engine.read_zero
        begins = begins and (engine.read_starts or not begun[engine.read_inner])
        if not engine.read_empty:
            if engine.read_starts:
                engine.count = engine.sums = 0
                begun[:] = 0
            engine.count += begins
            engine.sums = max(engine.sums, bank.first_sum + bank.sums)
            if begins:
                begun[engine.read_inner] = 1
            hold = engine.read_ends and bank.finish and engine.count != engine.sums
        last = engine.read_ends and bank.last and not hold
        engine.out = not engine.read_null or last
        engine.out_inner = engine.read_inner
        engine.out_flags = (
            (BEGINS if begins or engine.read_empty else 0)
            | (EMPTY if engine.read_empty or engine.read_zero else 0)
            | (NULL if engine.read_null else 0)
            | (LAST if last else 0)
        )
        if engine.read_ends and not hold:
            fetcher.free += 1
            wake(wakes[0], FETCHER, cycle + 1)
        if hold:
            engine.sweeping, engine.sweep_bank = 1, engine.read_bank
            engine.read = 0
    if sweeping:
        _sweep(engine, begun)
    return not hold and not sweeping


@compiled
def _sweep(engine, begun):
    """Put the lowest sum that never began into the stage before the output."""
    inner = 0
    while begun[inner]:
        inner += 1
    begun[inner] = 1
    engine.read, engine.read_bank, engine.read_inner = 1, engine.sweep_bank, inner
    engine.read_zero = engine.read_starts = engine.read_null = 0
    engine.read_empty = 1
    engine.count += 1
    engine.read_ends = engine.count == engine.sums
    engine.sweeping = not engine.read_ends


@compiled
def _shift(engine):
    """Move the pick on to the stage before the output."""
    engine.read, engine.read_bank, engine.read_inner = engine.picked, engine.picked_bank, engine.picked_inner
    engine.read_zero, engine.read_starts, engine.read_ends = (
        engine.picked_zero, engine.picked_starts, engine.picked_ends,
    )  # fmt: skip
    engine.read_null, engine.read_empty = engine.picked_null, 0
    engine.picked = 0


@compiled
def _pick(engine, banks, masks, values, there, flow, sizes):
    """Take the next scalar of the patch at hand if it can leave; tell whether it is its block's last."""
    if not engine.rest:
        engine.rest_bank, engine.rest_patch = engine.asked_bank, engine.asked_patch
        engine.rest_null = engine.asked_null
        engine.rest_mask = masks[engine.asked_bank, engine.asked_patch] if not engine.asked_null else 0
    bank = banks[engine.rest_bank]
    fresh = engine.fresh[engine.rest_bank]
    left = bank.nonzero if fresh else engine.remaining
    if not flow:
        engine.rest, engine.remaining = 1, left
        return left <= 1
    engine.remaining = left - 1
    engine.fresh[engine.rest_bank] = 0
    engine.picked, engine.picked_bank = 1, engine.rest_bank
    engine.picked_starts, engine.picked_ends = fresh != 0 and bank.begins != 0, left <= 1
    engine.picked_null = engine.rest_null
    engine.picked_zero = engine.picked_inner = 0
    if not engine.rest_null:
        bit = _lowest(engine.rest_mask)
        engine.picked_inner = _inner(bank, engine.rest_patch, bit, sizes)
        engine.picked_zero = not values[engine.rest_bank, engine.rest_patch] >> bit & 1
        engine.rest_mask &= engine.rest_mask - 1
    engine.rest = engine.rest_mask != 0
    return engine.picked_ends != 0


@compiled
def step_emitter(cycle, engine, banks, masks, values, scalars, begun, fetcher, sizes, wakes):
    """Send a scalar, pick the next, walk on, take a block that is offered."""
    flow = _send(cycle, engine, banks, scalars, begun, fetcher, sizes, wakes)
    if flow:
        _shift(engine)
    unwanted = engine.asked and not engine.asked_null and masks[engine.asked_bank, engine.asked_patch] == 0
    walker_ready = not engine.rest
    there = engine.rest or (engine.asked and not unwanted)
    stop, stop_bank = False, 0
    if there:
        stop = _pick(engine, banks, masks, values, there, flow, sizes)
        stop_bank = engine.rest_bank
    moves = not engine.asked or unwanted or walker_ready
    enable = engine.walking and moves
    stopped = stop and stop_bank == engine.walk_bank
    bank = banks[engine.walk_bank]
    null = bank.nonzero == 0
    last = enable and (null or engine.walk_patch == bank.patches - 1)
    ready = not engine.walking or last or stopped
    if moves:
        engine.asked = engine.walking
    if enable:
        engine.asked_bank, engine.asked_patch, engine.asked_null = engine.walk_bank, engine.walk_patch, null
        engine.walk_patch += 1
    if last or stopped:
        engine.walking = 0
    if fetcher.full and ready:
        engine.walking, engine.walk_bank, engine.walk_patch = 1, fetcher.bank, 0
        engine.fresh[fetcher.bank] = 1
        fetcher.full = fetcher.filling = 0
        fetcher.bank = 1 - fetcher.bank
        fetcher.free -= 1
        wake(wakes[0], FETCHER, cycle + 1)
    busy = engine.walking or there or unwanted or engine.picked or engine.read or engine.sweeping
    if engine.out and not all_show_room(scalars, sizes.scalar_fifo, cycle + 1) and not (unwanted or moves):
        wakes[0, EMITTER] = max(room_at(scalars, sizes.scalar_fifo), cycle + 1)
    else:
        wakes[0, EMITTER] = cycle + 1 if busy or engine.out or engine.asked else NEVER
