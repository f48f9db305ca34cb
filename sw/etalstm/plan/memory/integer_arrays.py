"""The arrays of a layer with integers, beside those of float32."""

from dataclasses import dataclass
from functools import partial

from etalstm.plan.memory import layout
from etalstm.plan.memory.integer_tiling import IntegerTiling
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import Location, Sequence

OPERANDS = ("x", "h")


@dataclass(frozen=True)
class Packed:
    """A matrix of integers of a byte: of each group of four vectors, a vector of words for each element.

    Members
    -------
    array : Array     [group][element]
    elements : int
    """

    array: Array
    elements: int

    def at(self, group: int, element: int) -> Location:
        """Vectors of a group from an element on."""
        return Location(self.array, group * self.elements + element)


@dataclass(frozen=True)
class Transposed:
    """δ as it is sent for dW: of each row all steps and sequences.

    Each run of rows of all channels lies in the window of one channel, one run after the other. There it lies as
    [run][channel of the rows][step][vector of sequences][row][sequence].

    Members
    -------
    array : Array
    tiling : IntegerTiling
    """

    array: Array
    tiling: IntegerTiling

    def window(self, run: int) -> int:
        """Give the channel whose window has a run."""
        return run % self.tiling.units.channels

    def block_vectors(self, run: int) -> int:
        """Vectors of a run's rows."""
        return self.tiling.row_runs[run].count * self.tiling.config.lanes

    def channel_vectors(self, run: int) -> int:
        """Vectors of a run of one channel's rows."""
        return self.tiling.steps * self.tiling.pair_blocks * self.block_vectors(run)

    def at(self, run: int, step: int, block: int) -> Location:
        """Where the rows of channel 0 lie of a step and vector of sequences."""
        channels = self.tiling.units.channels
        earlier = sum(channels * self.channel_vectors(r) for r in range(run % channels, run, channels))
        vector = earlier + (step * self.tiling.pair_blocks + block) * self.block_vectors(run)
        return Location(self.array, vector)


@dataclass(frozen=True)
class Numbers:
    """An operand as integers.

    Members
    -------
    sent : Sequence      as it is sent
    packed : Packed      as the lanes multiply by it: elements are steps and sequences
    first : int          entry of `sent`, and step of `packed`, of step 0
    """

    sent: Sequence
    packed: Packed
    first: int


@dataclass(frozen=True)
class IntegerArrays:
    """Arrays of a layer.

    Members
    -------
    tiling : IntegerTiling
    constants : Array    exponents that the host sets, a vector each: see :class:`Constant`
    exponents : Array    e_r, [tile of units][gate]
    rows, columns : dict of Packed    weights by rows and by columns, by operand
    wide : Array         weights by columns before they are packed, [row][tile of columns], inputs' tiles first
    operands : dict of Numbers
    output : Numbers     of what the layer gives: as ``operands["h"]``
    delta : Sequence     of integers
    transposed : Transposed
    largest, saturated : Array    of δ, [tile of units][gate]: largest sizes, how many were clamped
    """

    tiling: IntegerTiling
    constants: Array
    exponents: Array
    rows: dict[str, Packed]
    columns: dict[str, Packed]
    wide: Array
    operands: dict[str, Numbers]
    delta: Sequence
    transposed: Transposed
    largest: Array
    saturated: Array

    @property
    def output(self) -> Numbers:
        """What the layer gives, entry 0 its initial state."""
        return self.operands["h"]


class Constant:
    """Numbers of the exponents that the host sets for a layer."""

    X, H = range(2)  # of the gates' sums with x, with h; without the rows' own
    PLACES = 2  # for h
    WEIGHT_PLACES = 3  # for weights, without the rows' own
    DELTA_PLACES = 4  # for δ, likewise
    BELOW = 5  # of Wᵀδ
    BIAS = 6  # of db
    GRADIENT_X, GRADIENT_H = 7, 8  # of dW
    COUNT = 9


def allocate(
    memory: MemoryMap, tiling: IntegerTiling, number: int, below: IntegerArrays | None, delta: Sequence
) -> IntegerArrays:
    """Allocate the arrays of a layer; `below` are those of the layer below."""
    zeroed = partial(memory.add_raw, zeroed=True)
    channels, lanes = tiling.units.channels, tiling.config.lanes
    transposed = Transposed(zeroed(f"transposed{number}", "deltas", _transposed_vectors(tiling)), tiling)
    of_rows = tiling.rows
    columns = tiling.inputs.tiles + tiling.units.tiles
    output = _numbers(memory, tiling, "h", f"h{number}", 1)
    below_output = below.output if below else None
    given = Numbers(below_output.sent, below_output.packed, 1) if below_output else None
    return IntegerArrays(
        tiling=tiling,
        constants=memory.add_raw(f"constants{number}", "weights", Constant.COUNT),
        exponents=memory.add(
            f"exponents{number}",
            "weights",
            of_rows,
            partial(layout.rows_elements, tiling.units, tiling.gates),
            (tiling.gates * tiling.units.size,),
        ),
        rows={
            name: Packed(
                zeroed(f"rows{number}_{name}", "weights", tiling.row_groups * tiling.elements(name)),
                tiling.elements(name),
            )
            for name in OPERANDS
        },
        columns={
            name: Packed(
                zeroed(f"columns{number}_{name}", "weights", tiling.column_groups(name) * tiling.sent_rows),
                tiling.sent_rows,
            )
            for name in OPERANDS
        },
        wide=zeroed(f"wide{number}", "weights", of_rows * channels * lanes * columns),
        operands={"x": given or _numbers(memory, tiling, "x", f"x{number}", 0), "h": output},
        delta=delta,
        transposed=transposed,
        largest=memory.add_raw(f"largest{number}", "deltas", of_rows),
        saturated=memory.add_raw(f"saturated{number}", "deltas", of_rows),
    )


def _transposed_vectors(tiling: IntegerTiling) -> int:
    """Count the vectors of the window that has most of δ transposed."""
    channels = tiling.units.channels
    of_a_vector = channels * tiling.steps * tiling.pair_blocks * tiling.config.lanes
    of_windows = [sum(run.count for run in tiling.row_runs[first::channels]) for first in range(channels)]
    return of_a_vector * max(of_windows)


def _numbers(memory: MemoryMap, tiling: IntegerTiling, operand: str, name: str, more: int) -> Numbers:
    """Allocate an operand of `more` entries than steps. Packed, entry n is that of step n."""
    partition, entries, batch = tiling.columns_of(operand), tiling.steps + more, tiling.batch
    elements = partial(layout.sequence_elements, partition, entries, batch)
    shape = entries, batch.batch, partition.size
    sent = memory.add(
        f"numbers_{name}", "activations", entries * batch.vectors * partition.tiles, elements, shape, batch_axis=1
    )
    vectors = entries * tiling.pair_blocks * tiling.config.lanes
    groups = tiling.column_groups(operand)
    packed = memory.add_raw(f"packed_{name}", "activations", groups * vectors, zeroed=True)
    return Numbers(Sequence(sent, partition.tiles, batch), Packed(packed, vectors), 0)
