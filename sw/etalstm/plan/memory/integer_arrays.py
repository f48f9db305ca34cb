"""The arrays of a layer with integers, beside those of float32."""

from dataclasses import dataclass
from functools import partial

from etalstm.plan.memory import layout
from etalstm.plan.memory.digits import Digits, Numbers, Packed, of_delta, of_operand
from etalstm.plan.memory.integer_changes import Changes, IntegerRoom
from etalstm.plan.memory.integer_tiling import IntegerTiling
from etalstm.plan.memory.integer_tokens import IntegerTokens, allocate_integer_tokens
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import Location
from etalstm_hw.contract.integers import PLANES

OPERANDS = ("x", "h")


@dataclass(frozen=True)
class Transposed:
    """δ as it is sent for dW: of each row all steps and sequences, two planes of digits.

    Rows lie in the window of the channel that owns them, as [shard][run][step][block of sequences][plane][row].

    Members
    -------
    array : Array
    tiling : IntegerTiling
    """

    array: Array
    tiling: IntegerTiling

    def plane_vectors(self, run: int) -> int:
        """Vectors of a block's plane: one for each of a run's rows."""
        return self.tiling.row_runs[run].count * self.tiling.config.lanes

    def vectors(self, run: int) -> int:
        """Vectors of a run of rows."""
        return self.tiling.steps * self.tiling.pair_blocks * PLANES * self.plane_vectors(run)

    @property
    def shard_vectors(self) -> int:
        """Vectors of a shard."""
        return sum(map(self.vectors, range(len(self.tiling.row_runs))))

    def at(self, run: int, step: int, block: int, shard: int = 0) -> Location:
        """Where the rows of a shard's run lie of a step and block of sequences."""
        earlier = shard * self.shard_vectors + sum(map(self.vectors, range(run)))
        vector = earlier + (step * self.tiling.pair_blocks + block) * PLANES * self.plane_vectors(run)
        return Location(self.array, vector)


@dataclass(frozen=True)
class Gathered:
    """δ of a shard as it is sent for dW, with the sequences of all parts of the batch: [run][part], then as transposed.

    Members
    -------
    array : Array               that of `transposed` where there is one part
    transposed : Transposed     of the group's own part
    """

    array: Array
    transposed: Transposed

    def at(self, run: int, part: int, step: int, block: int) -> Location:
        """Where the rows of a run lie of a step and block of sequences."""
        parts, vectors = self.transposed.tiling.parts, self.transposed.vectors
        inside = self.transposed.at(run, step, block).vector
        before = (parts - 1) * sum(map(vectors, range(run))) + part * vectors(run)
        return Location(self.array, before + inside, (run,) if parts > 1 else ())


@dataclass(frozen=True)
class IntegerArrays:
    """Arrays of a layer.

    Members
    -------
    tiling : IntegerTiling
    constants : Array    exponents that the host sets, a vector each: see :class:`Constant`
    exponents : Array    e_r, [tile of units][gate], of all rows
    rows, columns : dict of Packed    weights by rows and by columns, by operand
    operands : dict of Numbers
    delta : Digits       a group is the gates of a tile of units
    transposed : Transposed
    gathered : Gathered
    noted : Array        of δ, a vector each: exponents of the largest ones, how many were clamped
    changes : dict of Changes    with delta inputs, by operand; `operands` are what was last sent then
    together : bool      a gate has one sum with both operands, else one with each
    low_words : Array    the lower 32 bits of the sums of dW, which lie as dW does; None unless the host wants the sums
    tokens : IntegerTokens    where x are tokens whose sums are shared; else None
    """

    tiling: IntegerTiling
    constants: Array
    exponents: Array
    rows: dict[str, Packed]
    columns: dict[str, Packed]
    operands: dict[str, Numbers]
    delta: Digits
    transposed: Transposed
    gathered: Gathered
    noted: Array
    changes: dict[str, Changes]
    together: bool
    low_words: Array | None
    tokens: IntegerTokens | None

    @property
    def of_sums(self) -> tuple[str, ...]:
        """The operand that completes each of a gate's sums."""
        return OPERANDS[self.together :]

    @property
    def output(self) -> Numbers:
        """What the layer gives, entry 0 its initial state."""
        return self.operands["h"]


class Constant:
    """Numbers of the exponents that the host sets for a layer."""

    X, H = range(2)  # of the gates' sums with x, with h; without the rows' own
    PLACES = 2  # for h, and for weights without the rows' own
    DELTA_PLACES = 3  # for δ, likewise
    BELOW = 4  # of Wᵀδ
    BIAS = 5  # of db
    GRADIENT_X, GRADIENT_H = 6, 7  # of dW
    HELD, HELD_PLACES = 8, 9  # of what was last sent, and of its integers: of any layer
    COUNT = 10


class Noted:
    """Vectors of what a channel notes of δ."""

    EXPONENT, CLAMPED = range(2)
    COUNT = 2


def allocate(
    memory: MemoryMap, tiling: IntegerTiling, number: int, below: IntegerArrays | None, room: IntegerRoom | None,
    together: bool, summed: Array | None, tokens: int, every_delta: bool,
) -> IntegerArrays:  # fmt: skip
    """Allocate the arrays of a layer.

    `below` are those of the layer below, `room` is there with delta inputs. `together` is as in the result. `summed` is
    dW, if the host wants its sums. `tokens` are how many distinct ones are shared at most; 0: x are no tokens. Without
    `every_delta` what is sent for dW of all layers has one array.
    """
    of_transposed = tiling.steps * tiling.pair_blocks * PLANES * tiling.padded_rows * tiling.config.lanes
    if below and not every_delta:
        transposed, gathered = Transposed(below.transposed.array, tiling), below.gathered.array
        assert transposed.array.vectors == of_transposed, "layers have equally many rows"
    else:
        transposed = Transposed(memory.add_raw(f"transposed{number}", "deltas", of_transposed, zeroed=True), tiling)
        gathered = (
            memory.add_raw(f"gathered{number}", "deltas", of_transposed) if tiling.parts > 1 else transposed.array
        )
    if below and not room:
        x = Numbers(below.output.digits, 1)
    else:
        x = Numbers(of_operand(memory, tiling, "x", f"numbers_x{number}", tiling.steps), 0)
    of_rows = partial(layout.rows_elements, tiling.units, tiling.gates, tiling.padded_rows)
    return IntegerArrays(
        tiling=tiling,
        constants=memory.add_raw(f"constants{number}", "weights", Constant.COUNT),
        exponents=memory.add(
            f"exponents{number}", "weights", tiling.padded_rows, of_rows, (tiling.gates * tiling.units.size,)
        ),
        rows={
            name: _packed(memory, f"rows{number}_{name}", tiling.units.tiles, tiling.elements(name))
            for name in OPERANDS
        },
        columns={
            name: _packed(memory, f"columns{number}_{name}", tiling.groups_of(name), tiling.sent_rows)
            for name in OPERANDS
        },
        operands={
            "x": x,
            "h": Numbers(of_operand(memory, tiling, "h", f"numbers_h{number}", tiling.steps + 1), 0),
        },
        delta=of_delta(memory, tiling, f"numbers_delta{number}"),
        transposed=transposed,
        gathered=Gathered(gathered, transposed),
        noted=memory.add_raw(f"noted{number}", "deltas", Noted.COUNT),
        changes=room.changes(tiling, number) if room else {},
        together=together,
        low_words=_low_words(memory, number, summed) if summed else None,
        tokens=allocate_integer_tokens(memory, tiling, tokens) if tokens else None,
    )


def _low_words(memory: MemoryMap, number: int, summed: Array) -> Array:
    return memory.add_shards(f"low_words{number}", summed.kind, summed.vectors, summed.make_elements, summed.shape)


def _packed(memory: MemoryMap, name: str, groups: int, elements: int) -> Packed:
    return Packed(memory.add_raw(name, "weights", groups * elements, zeroed=True), elements)
