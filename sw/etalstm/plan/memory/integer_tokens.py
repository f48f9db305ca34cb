"""Arrays for shared tokens with integers: x of each token, the sums of the gates with it, and which token a step has.

A token's sum is a number of more than a byte. It is kept as several bytes, each of which counts a power of two. So the
tokens' sums are a matrix of weights of a byte, with as many elements for each token as its sums have bytes. In the
steps x is replaced by an array with these powers in the elements of the step's token, and 0 elsewhere.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from etalstm.errors import PlanError
from etalstm.plan.memory.digits import Digits, Packed, of_partition, operand_elements
from etalstm.plan.memory.integer_tiling import IntegerTiling
from etalstm.plan.memory.memory_map import Array, MemoryMap, groups_elements
from etalstm.plan.memory.operands import Sequence
from etalstm.plan.memory.tiling import BatchTiles, Partition, ceil_div
from etalstm_hw.contract import BINARY32
from etalstm_hw.contract.integers import DIGIT_BITS, WEIGHT_BITS, largest_mantissa

LOW, MIDDLE = 0, DIGIT_BITS - 1  # of a number that is sent, the lower digit and the upper one
HIGH = 2 * MIDDLE - 1  # the largest power of two among these numbers
MOST_INPUTS = (1 << BINARY32.mantissa + 1) // largest_mantissa(WEIGHT_BITS) ** 2  # terms of a sum that float32 holds


def powers_of(inputs: int) -> tuple[int, ...]:
    """Give the powers of two that the bytes of a sum of so many terms count, the largest first.

    What the first ones leave is at most half of 2^13, so the other two hold it.
    """
    return (HIGH,) * ceil_div(inputs * largest_mantissa(WEIGHT_BITS), 1 << HIGH) + (MIDDLE, LOW)


@dataclass(frozen=True)
class IntegerTokens:
    """Each group of channels has tokens of its own.

    Members
    -------
    count : int           distinct tokens of a group's part at most
    powers : tuple        see :func:`powers_of`
    x : Digits            (1, groups·tokens, I): tokens in the place of sequences, those of a group after the other
    chosen : Digits       of two planes: (T, B, elements), powers of two for the step's token
    partition : Partition    of the elements of `chosen`: those of a byte for all tokens, then those of the next byte
    sums : Packed         [tile of units][element]
    scales : Array        a vector each: see :attr:`scale_words`
    """

    count: int
    powers: tuple[int, ...]
    x: Digits
    chosen: Digits
    partition: Partition
    sums: Packed
    scales: Array

    def first_of(self, byte: int) -> int:
        """Give the element of the first token for a byte."""
        return byte * (self.partition.size // len(self.powers))

    @property
    def scale_words(self) -> np.ndarray:
        """Exponents: for each byte the places to quantise to, and the power to convert with; int32, (vectors,)."""
        return np.array([word for power in self.powers for word in (-power, power)], np.int32)


def allocate_integer_tokens(memory: MemoryMap, tiling: IntegerTiling, count: int) -> IntegerTokens:
    """Allocate the arrays of at most so many distinct tokens of a group's part.

    Raises ``PlanError`` if x has so many elements that a sum is not exact as float32.
    """
    if tiling.inputs.size > MOST_INPUTS:
        raise PlanError(
            f"with integers tokens are shared of at most {MOST_INPUTS:,} inputs, input_size is {tiling.inputs.size:,}"
        )
    powers, channels = powers_of(tiling.inputs.size), tiling.units.channels
    of_byte = ceil_div(count, channels * tiling.block) * channels * tiling.block
    partition = Partition(len(powers) * of_byte, channels, tiling.config.lanes)
    of_tokens, shape = BatchTiles(count, tiling.batch.size), (1, count, tiling.inputs.size)
    vectors = of_tokens.vectors * tiling.groups_of("x")
    array = memory.add_raw("numbers_tokens", "activations", vectors, zeroed=True)
    of_group = partial(operand_elements, tiling.inputs, 1, of_tokens)
    make = partial(groups_elements, of_group, memory.groups, shape[1] * shape[2])
    sums = memory.add_raw("token_sums", "activations", tiling.units.tiles * partition.size, zeroed=True)
    return IntegerTokens(
        count=count,
        powers=powers,
        x=Digits(Sequence(array, tiling.groups_of("x"), of_tokens), 1, make),
        chosen=of_partition(memory, partition, tiling.batch, "chosen_tokens", tiling.steps, 2),
        partition=partition,
        sums=Packed(sums, partition.size),
        scales=memory.add_raw("scales_tokens", "weights", 2 * len(powers)),
    )
