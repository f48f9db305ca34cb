"""Which vectors of a lane memory an instruction touches."""

import numpy as np

from etalstm_hw.config import Config
from etalstm_hw.contract import LANE_ADDRESS_BITS, PARAMETERS, Memory, Source

_ADDRESSES = 1 << LANE_ADDRESS_BITS


def depth_of(config: Config, memory: Memory) -> int:
    """Give how many vectors a lane memory has."""
    return {
        Memory.WEIGHTS: config.weight_depth,
        Memory.SCRATCH: config.scratch_depth,
        Memory.BIAS: config.bias_depth,
        Memory.SUMS: config.sums,
    }[memory]


def source_depth(config: Config, source: Source) -> int:
    """Give how many addresses an operand of a VECTOR has."""
    memories = {Source.SCRATCH: config.scratch_depth, Source.SUMS: config.sums}
    return memories.get(source, PARAMETERS)


def leaves(depth: int, first: int, outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    """Tell whether an address of two nested loops is beyond a memory.

    Addresses count modulo 2^LANE_ADDRESS_BITS: a stride may be negative.

    Parameters
    ----------
    depth : int
        Vectors of the memory.
    first : int
    outer, inner : (turns, stride)
    """
    highest = first + (outer[0] - 1) * outer[1] + (inner[0] - 1) * inner[1]
    if highest < depth:
        return False
    touched = np.zeros(_ADDRESSES, bool)
    run = np.arange(inner[0]) * inner[1]
    for start in np.unique((first + np.arange(outer[0]) * outer[1]) % _ADDRESSES):
        touched[(start + run) % _ADDRESSES] = True
        if touched[depth:].any():
            return True
    return False
