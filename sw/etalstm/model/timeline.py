"""When each instruction was at work: the model once more, cycle by cycle, with its instruction queues watched."""

from collections.abc import Sequence

import numpy as np

from etalstm.model.iteration import machine_with
from etalstm.model.machine.state import CAST, NEVER, compiled, entry_point, record
from etalstm.model.operands import Densities
from etalstm.model.run import step
from etalstm.network.architecture import SWING, Architecture
from etalstm_hw.config import Config

SLICE = record(
    "channel", "engine", "start", "end", "opcode", "kind", "memory", "op", "backward", "compressed", "outer", "inner"
)  # fmt: skip
"""An instruction at the output of its queue, from ``start`` until the engine has let go of it, ``end``.

The other fields are the instruction's. The broadcaster is engine CAST of channel 0.
"""

_BUFFER = 1 << 16  # slices between two calls of compiled code


@compiled
def _begin(slot, instance, channel, engine, start):
    """Note the instruction that has come to a queue's output."""
    slot.channel, slot.engine, slot.start, slot.end = channel, engine, start, -1
    slot.opcode, slot.kind, slot.memory, slot.op = instance.opcode, instance.kind, instance.memory, instance.op
    slot.backward, slot.compressed = instance.backward, instance.compressed
    slot.outer, slot.inner = instance.outer, instance.inner


@compiled
def _watch(cycle, m, present, found, count):
    """Note what has come to the queues' outputs and what has left them; give how many slices are whole."""
    for channel in range(len(m.queues)):
        for engine in range(CAST + 1 if channel == 0 else CAST):
            queue, slot = m.queues[channel, engine], present[channel, engine]
            if slot.end == -1 and (queue.current < 0 or queue.valid_from != slot.start):
                slot.end = max(cycle, slot.start + 1)
                found[count] = slot
                count += 1
            if slot.end != -1 and queue.current >= 0 and queue.valid_from != slot.start:
                _begin(slot, m.instances[queue.current], channel, engine, queue.valid_from)
    return count


@entry_point
def _follow(cycle, last, m, p, sizes, present, found):
    """Run until a cycle, the program's end, or until `found` is nearly full; give the cycle and the whole slices."""
    count = 0
    while cycle < last and count + present.size <= len(found):
        step(cycle, m, p, sizes)
        count = _watch(cycle, m, present, found, count)
        following = NEVER
        for channel in range(len(m.wakes)):
            for part in range(m.wakes.shape[1]):
                following = min(following, m.wakes[channel, part])
        if following == NEVER:
            return NEVER, count
        cycle = m.sequencer[0].cycle = max(following, cycle + 1)
    return cycle, count


def follow_program(
    config: Config,
    words: Sequence[int],
    operands: Densities,
    architecture: Architecture = SWING,
    *,
    groups: int = 1,
    cycles: int = NEVER,
) -> np.ndarray:
    """Give when each instruction of a program was at work, in the channels of one memory port, as an array of SLICE.

    All groups, and all ports, do the same at the same time. The program is followed for so many `cycles` at most; the
    other arguments are those of :func:`etalstm.model.iteration.count_program`.

    Slices are in the order in which they end; those of one channel's engine do not overlap. What is at work after the
    last cycle is left out.
    """
    machine, program, sizes = machine_with(config, words, operands, architecture, groups)
    present = np.zeros(machine.queues.shape, SLICE)
    present["start"] = -1
    found, cycle, chunks = np.zeros(_BUFFER + present.size, SLICE), 0, []
    while cycle < cycles:
        cycle, count = _follow(cycle, cycles, machine, program, sizes, present, found)
        chunks.append(found[:count].copy())
    return np.concatenate(chunks) if chunks else found[:0]
