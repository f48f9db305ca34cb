"""The engines of a channel's products where these are integers: see etalstm_hw.integer.products, array and compute.

Each stream of digits has an engine; all execute the same instructions.
"""

from etalstm.model.machine import latencies, state
from etalstm.model.machine.latencies import BUFFERED_FIFO, CAPTURE, SUMMED
from etalstm.model.machine.queues import offered, record_pop, take
from etalstm.model.machine.senders import ENDS, FINAL, LAST
from etalstm.model.machine.state import NEVER, RING, compiled, complete, record, wake
from etalstm_hw.contract.integers import CHUNK

OLD = 4  # captures whose old sums are read, or will be: more than can be on their way

ENGINE = record("taken", "valid", "flags", "alone", "products", "free_at", "continues", "reads", "ended", old_from=OLD)
"""The digit at hand: its flags, and whether its sum begins with 0.

``products`` of a chunk were made; a capture waits until ``free_at``. ``continues``: a chunk of the sum was captured.
Old sums are read in as many cycles as a lane's PEs have sums, from each of the last ``reads``' ``old_from`` on.
``taken``: it has taken all digits of the instruction at hand. ``ended`` counts instructions.
"""

ENDED = record(engines=RING, last=RING)
"""Of instructions that not all engines have ended: how many have, and the cycle of the last one's last sum."""


@compiled
def old_sums_until(cycle, engine, sums):
    """Give the cycle from which on VECTOR may read sums of an engine, which reads old ones itself."""
    for entry in range(OLD):
        first = engine.old_from[entry]
        if first <= cycle < first + sums:
            return first + sums
    return cycle


@compiled
def _end(cycle, engine, ended, done, wakes, sizes):
    """Note that an engine has made its last product of an instruction; of all engines the slowest completes it."""
    entry = engine.ended % RING
    engine.ended += 1
    ended.engines[entry] += 1
    ended.last[entry] = max(ended.last[entry], cycle + CAPTURE + SUMMED + sizes.tile_sums - 1)
    if ended.engines[entry] == sizes.streams:
        complete(done, wakes, state.MAC, ended.last[entry])
        ended.engines[entry] = ended.last[entry] = 0


@compiled
def _issue(cycle, engine, ended, stalled, done, wakes, sizes):
    """Multiply the digit at hand, unless its capture would come too early; tell whether it left."""
    captured = engine.products == CHUNK - 1 or engine.flags & ENDS != 0
    if stalled or (captured and engine.free_at > cycle):
        return False
    engine.products = 0 if captured else engine.products + 1
    if captured:
        if not engine.continues and not engine.alone:
            engine.old_from[engine.reads % OLD] = cycle + CAPTURE
            engine.reads += 1
        engine.free_at = cycle + sizes.tile_sums
        engine.continues = engine.flags & LAST == 0
    if engine.flags & FINAL:
        _end(cycle, engine, ended, done, wakes, sizes)
    return True


@compiled
def _take_digit(cycle, engine, digits, instruction, wakes):
    """Take the next digit."""
    engine.flags, engine.alone, engine.valid = digits.marks[digits.head % RING], not instruction.adds, 1
    record_pop(digits, cycle)
    wake(wakes, state.EMITTER, cycle + latencies.NEWS + 1)
    engine.taken = engine.flags & FINAL != 0


@compiled
def _there_at(digits):
    """Give the cycle from which on a digit is there."""
    return digits.pushed[digits.head % RING] + BUFFERED_FIFO if digits.tail > digits.head else NEVER


@compiled
def _stands_still(cycle, number, load, sizes):
    """Tell whether weights that were taken a cycle ago are written by the port that an engine reads by."""
    if number % 2 == 0 and number + 1 == sizes.streams:
        return False
    if load.weights_at == cycle - 1:
        return number % 2 == load.side
    return load.weights_before == cycle - 1 and number % 2 != load.side


@compiled
def step_products(cycle, mac, engines, ended, queue, scalars, table, load, sizes, done, wakes):
    """Multiply a digit in each engine and take the next one. `scalars` has the channel's digits of each stream.

    ``mac`` shows what all engines do: whether one has a digit, and when one was multiplied last.
    """
    following, all_taken, valid = NEVER, True, False
    there = offered(queue, cycle)
    for number in range(sizes.streams):
        engine, digits = engines[number], scalars[number]
        leaves = True
        if engine.valid:
            leaves = _issue(cycle, engine, ended, _stands_still(cycle, number, load, sizes), done, wakes, sizes)
            if leaves:
                mac.issued_at = cycle
            following = cycle + 1
        if leaves:
            engine.valid = 0
            if there and not engine.taken:
                begins = _there_at(digits)
                if begins <= cycle:
                    _take_digit(cycle, engine, digits, table[queue.current], wakes)
                    following = cycle + 1
                else:
                    following = min(following, begins)
        all_taken = all_taken and engine.taken
        valid = valid or engine.valid
    mac.valid = valid
    if there and all_taken:
        take(queue, wakes, cycle)
        for number in range(sizes.streams):
            engines[number].taken = 0
    wakes[state.MACS] = following
