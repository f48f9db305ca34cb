"""Long stretches of MACs in closed form.

While nothing but the broadcaster and the MAC engines act, the FIFO of scalars is full, and no sum is needed again soon,
each scalar takes a cycle for each of its tiles. Whole groups of scalars are left out then, and time goes on by what
they take: all else stays as it is, later.
"""

from etalstm.model.machine.latencies import MAC_SUM
from etalstm.model.machine.masks import count_bits
from etalstm.model.machine.state import EMITTER, MACS, NEVER, PARTS, RING, compiled

_LEAST = 16  # scalars that are worth it
_MARGIN = 8  # scalars that are gone through before something else happens


@compiled
def others(wakes):
    """Give the next cycle in which a part other than the broadcaster's emitter and the MAC engine acts."""
    soonest = NEVER
    for channel in range(len(wakes)):
        for part in range(PARTS):
            if part != MACS and part != EMITTER:
                soonest = min(soonest, wakes[channel, part])
    return soonest


@compiled
def _is_steady(engine, bank, scalars, tiles, sizes):
    """Tell whether scalars pass as fast as the MAC engine takes them."""
    number = engine.held_bank
    if not (engine.held and engine.walking and engine.asked) or engine.held_void or engine.asked_void:
        return False
    if engine.asked_bank != number or engine.walk_bank != number or engine.sweeping or engine.fresh[number]:
        return False
    if engine.remaining + _MARGIN > bank.nonzero:  # the stages behind the pick may still belong to the block before
        return False
    dense = bank.nonzero * 10 >= bank.wanted * 9
    repeats = bank.sums * tiles > 2 * MAC_SUM
    waiting = 0  # in the channel that is behind the others
    for channel in range(len(scalars)):
        waiting = max(waiting, scalars[channel].tail - scalars[channel].head)
    return dense and repeats and engine.count == bank.sums and waiting >= sizes.scalar_fifo


@compiled
def skip_scalars(room, engine, banks, masks, scalars, tiles, sizes):
    """Leave out groups of the block at hand whose scalars fit into `room` cycles; give how many scalars they have."""
    bank = banks[engine.held_bank]
    most = min(room // tiles, engine.remaining) - _MARGIN
    if most < _LEAST or not _is_steady(engine, bank, scalars, tiles, sizes):
        return 0
    skipped, group, ahead = 0, engine.asked_group, engine.walk_group - engine.asked_group
    while group + ahead < bank.groups - 1:
        count = count_bits(masks[engine.held_bank, group])
        if skipped + count > most:
            break
        skipped += count
        group += 1
    engine.asked_group, engine.walk_group = group, group + ahead
    engine.remaining -= skipped
    return skipped


@compiled
def shift(cycle, cycles, scalars, sums, wakes):
    """Have what the emitter and the MAC engines do, and have done just before `cycle`, happen so many cycles later."""
    for channel in range(len(wakes)):
        for place in range(RING):
            scalars[channel].pushed[place] += cycles
            scalars[channel].popped[place] += cycles
        for address in range(sums.shape[1]):
            if sums[channel, address] >= cycle - 2 * MAC_SUM:
                sums[channel, address] += cycles
        for part in (EMITTER, MACS):
            if wakes[channel, part] < NEVER:
                wakes[channel, part] += cycles
