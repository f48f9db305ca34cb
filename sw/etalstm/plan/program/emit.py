"""Instructions in the planner's words: arrays and operands instead of fields."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from etalstm.errors import PlanError
from etalstm.plan.memory.memory_map import Array
from etalstm.plan.memory.operands import Location, Log, Operand, Parameter, RowMap, Section
from etalstm.plan.memory.tiling import Partition
from etalstm.plan.program.program import Program
from etalstm.plan.program.tracker import VectorSet
from etalstm_hw.config import Config
from etalstm_hw.contract import COUNT_BITS, Memory, Opcode, Source, Start, Traffic, VectorOp

MOST_COUNTED = (1 << COUNT_BITS) - 1  # runs of a transfer's outer loop, and vectors of its inner one


class Emitter:
    """Appends instructions to a program and tracks which vectors of the lane memories they touch.

    `loop` and `join_parts` are the program's.
    """

    def __init__(self, config: Config, program: Program):
        self._config, self._program = config, program
        self.loop, self.join_parts = program.loop, program.join_parts
        self._depths = {
            Memory.WEIGHTS: config.weight_depth,
            Memory.SCRATCH: config.scratch_depth,
            Memory.BIAS: config.bias_depth,
            Memory.SUMS: config.sums,
        }
        self._known: dict[tuple, VectorSet] = {}

    def in_turns(self, total: int, of_turn: int, emit: Callable[[int, int], None]) -> None:
        """Append a loop of turns of `of_turn` items each, and a turn of the rest: `emit` takes its number and items."""
        turns, rest = divmod(total, of_turn)
        self.loop(turns, lambda turn: emit(turn, of_turn))
        if rest:
            emit(turns, rest)

    def load(
        self, to: Operand, source: Location, kind: Traffic, outer: int, inner: int, *, group: int | None = None,
        group_stride: int = 0, everyone: bool = False,
    ) -> None:  # fmt: skip
        """Copy outer·inner contiguous vectors of an array into a lane memory; with `group`, of that group's array.

        With `group_stride` they begin so many vectors later in each group of channels than in the group before.
        With `everyone` other channels have stored some of them.
        """
        fields: dict[str, Any] = {} if group is None else {"group": group + 1, "everyone": 1}
        if everyone:
            fields["everyone"] = 1
        if group_stride:
            fields["group_stride"] = group_stride * self._config.vector_beats
        for piece in _pieces(to, source, outer, inner):
            self._transfer(Opcode.LOAD, piece[0], piece[1], kind, *piece[2:], **fields)

    def load_rows(
        self, to: Operand, source: Location, kind: Traffic, outer: int, inner: int, *, first_block: int, needed: RowMap
    ) -> None:
        """Copy those of `outer` rows, the first of which are of block `first_block`, that are needed."""
        channel, tile = divmod(first_block, needed.partition.tiles)
        self._transfer(
            Opcode.LOAD_ROWS, to, source, kind, outer, inner,
            also_reads=needed.location.resource, map=self._beat(needed.location),
            channel=channel, tile=tile, tiles_per_channel=needed.partition.tiles,
            lanes=needed.partition.lanes_of(0), last_lanes=needed.partition.lanes_of(needed.partition.tiles - 1),
            single=needed.gates == 1,
        )  # fmt: skip

    def store(
        self, source: Operand, to: Location, kind: Traffic, outer: int, inner: int, *, made_of: Array | None = None
    ) -> None:
        """Copy vectors of the scratch memory or the partial sums to outer·inner contiguous vectors of an array.

        An array that groups exchange is overwritten only after every channel has stored the values computed from the
        old content. `made_of` is the array that the stored values were computed from.
        """
        also_reads, fields = (_used(to.array), {"everyone": 1}) if to.array.exchanged else (None, {})
        also_writes = _used(made_of) if made_of and made_of.exchanged else None
        for piece in _pieces(source, to, outer, inner):
            self._transfer(
                Opcode.STORE, piece[0], piece[1], kind, *piece[2:], also_reads=also_reads, also_writes=also_writes,
                **fields,
            )  # fmt: skip

    def compress(
        self, source: Operand, index: Location, log: Log, kind: Traffic, threshold: int, bf16: bool, outer: int,
        inner: int, *, alone: bool = False,
    ) -> None:  # fmt: skip
        """Append vectors of the scratch memory to a log as one compressed stream; its index goes to `index`.

        Elements below parameter `threshold` are dropped; with `bf16` the others are rounded. The program's first
        stream in a log begins it anew, and how far the log is filled is noted. A stream that is `alone` begins a log
        that has room for it in the worst case.
        """
        first = alone or log not in self._program.ends
        if not alone:
            self._program.ends[log] = index
        self._transfer(
            Opcode.STORE, source, index, kind, outer, inner,
            compressed=1, bf16=bf16, threshold=threshold, first=first, log=log.number,
            start=self._beat(Location(log.array, 0)), end=self._beat(Location(log.array, log.array.vectors)),
        )  # fmt: skip

    def decompress(self, to: Operand, index: Location, kind: Traffic, bf16: bool, *, outer: int, inner: int) -> None:
        """Read the stream whose index is at `index` into the scratch memory."""
        self._transfer(Opcode.LOAD, to, index, kind, outer, inner, compressed=1, bf16=bf16)

    def vector(
        self, op: VectorOp, d: Operand, a: Operand | Parameter, b: Operand | Parameter | None = None, *, outer: int = 1,
        inner: int, serial: bool = False, bits: int = 0,
    ) -> None:  # fmt: skip
        """Run an element-wise operation; `serial` makes each outer iteration see the results of the one before.

        `bits` are those of the integers that it makes, or the number of the parameter that ADD_SCALED multiplies by.
        """
        fields: dict[str, Any] = {}
        reads = []
        for name, operand in (("a", a), ("b", b)):
            match operand:
                case Parameter(number):
                    fields.update({f"{name}_source": Source.PARAMETER, name: number})
                case Operand():
                    source = Source.SUMS if operand.memory == Memory.SUMS else Source.SCRATCH
                    strides = {f"{name}_outer": operand.outer, f"{name}_inner": operand.inner}
                    fields.update({f"{name}_source": source, name: operand.address}, **strides)
                    reads.append(self._touched(operand, outer, inner))
        self._program.emit(
            Opcode.VECTOR, reads=reads, writes=[self._touched(d, outer, inner)], op=op, d=d.address, d_outer=d.outer,
            d_inner=d.inner, outer=outer, inner=inner, serial=serial, bits=bits, **fields,
        )  # fmt: skip

    def cast(
        self, source: Location, partition: Partition, kind: Traffic, *, compressed: bool = False, first_block: int,
        blocks: int, gates: int, batch: int, tiles: int, start: bool, finish: bool, first_sum: int = 0,
        rows: range | None = None, narrow: bool = False,
    ) -> None:  # fmt: skip
        """Broadcast blocks of an array: by rows, or with `rows` (a range of lanes of one block) by batch.

        With `compressed` the blocks are streams, and `source` has the index of the first tile's. CASTs from one `start`
        to its `finish` may each have sums of their own, `first_sum` is the number of a CAST's first one. With `narrow`
        a vector of the weights holds two tiles.
        """
        channel, tile = divmod(first_block, partition.tiles)
        lanes: dict[str, Any] = {"lanes": partition.lanes_of(0), "last_lanes": partition.lanes_of(partition.tiles - 1)}
        if rows is not None:
            lanes = {"lane": rows.start, "lanes": len(rows), "last_lanes": len(rows), "batch_outer": 1}
        self._program.emit(
            Opcode.CAST, reads=[source.resource], address=self._beat(source), kind=kind, compressed=compressed,
            channel=channel, tile=tile, tiles_per_channel=partition.tiles, blocks=blocks, gates=gates, batch=batch,
            tiles=tiles, first_sum=first_sum, start=start, finish=finish, narrow=narrow, **lanes,
        )  # fmt: skip

    def mac(
        self, weights: Operand, weight_vectors: int, sums: Operand, sum_vectors: int, tiles: int, *,
        bias: Operand | None = None, backward: bool = False,
    ) -> None:  # fmt: skip
        """Accumulate the scalars of the CAST before: `sum_vectors` partial sums, from `weight_vectors` weights.

        `backward` tells the products of the backward pass, Wᵀδ and dW, from those of the forward pass.
        """
        reads = [self._touched(weights, 1, weight_vectors)]
        if bias is not None:
            reads.append(self._touched(bias, 1, tiles))
        self._program.emit(
            Opcode.MAC, reads=reads, writes=[self._touched(sums, 1, sum_vectors)], weights=weights.address,
            sums=sums.address, bias=bias.address if bias else 0, tiles=tiles,
            start=Start.BIAS if bias else Start.NOTHING, backward=backward,
        )  # fmt: skip

    def send(
        self, source: Location, kind: Traffic, *, channel: int, tile: int, tiles: int, blocks: int, sequences: int,
        wide: bool, repeats: int,
    ) -> None:  # fmt: skip
        """Send blocks of an array of digits, from `tile` of `channel` on; a channel has so many `tiles`."""
        self._program.emit(
            Opcode.SEND, reads=[source.resource], address=self._beat(source), kind=kind, channel=channel, tile=tile,
            tiles_per_channel=tiles, blocks=blocks, batch=sequences, own=self._config.of_stream(sequences), wide=wide,
            repeats=repeats,
        )  # fmt: skip

    def product(
        self, weights: Operand, weight_vectors: int, rows: int, sums: Operand, sum_vectors: int, *, adds: bool,
        backward: bool = False,
    ) -> None:  # fmt: skip
        """Multiply what the SEND before sends by weights of `rows` for each time; `adds` to the sums that are there.

        `sums` are those of the first stream, `sum_vectors` those of each.
        """
        of_all = sums.at(0, outer=self._config.queue_depth, inner=1)
        written = self._touched(of_all, self._config.integer_streams, sum_vectors)
        self._program.emit(
            Opcode.PRODUCT, reads=[self._touched(weights, 1, weight_vectors)], writes=[written],
            weights=weights.address, rows=rows, sums=sums.address, adds=adds, backward=backward,
        )  # fmt: skip

    def transpose(
        self, source: Operand, to: Location, *, gates: int, target: int, beat: int, rows: int, lanes: int,
        outer_beats: int, lane_beats: int, channel_beats: int, kind: Traffic = Traffic.WEIGHTS, read_here: bool = False,
    ) -> None:  # fmt: skip
        """Write squares of vectors, transposed, into an array of channel `target`'s window.

        `read_here` tells that the program reads it.
        """
        self._program.emit(
            Opcode.TRANSPOSE, reads=[self._touched(source, gates, rows)], writes=[to.resource] if read_here else [],
            address=self._beat(to) + beat, kind=kind, target=target, lane_address=source.address, outer=gates,
            outer_stride=source.outer, inner_stride=source.inner, rows=rows, lanes=lanes, outer_beats=outer_beats,
            lane_beats=lane_beats, channel_beats=channel_beats,
        )  # fmt: skip

    def _transfer(
        self, opcode: Opcode, lane: Operand, location: Location, kind: Traffic, outer: int, inner: int,
        also_reads: Section | None = None, also_writes: Section | None = None, **fields: int,
    ) -> None:  # fmt: skip
        lane_resource, array_resource = self._touched(lane, outer, inner), location.resource
        loads = opcode != Opcode.STORE
        self._program.emit(
            opcode,
            reads=[array_resource if loads else lane_resource] + ([also_reads] if also_reads else []),
            writes=[lane_resource if loads else array_resource] + ([also_writes] if also_writes else []),
            address=self._beat(location),
            kind=kind,
            memory=lane.memory,
            lane_address=lane.address,
            outer=outer,
            inner=inner,
            outer_stride=lane.outer,
            inner_stride=lane.inner,
            **fields,
        )

    def _beat(self, location: Location) -> int:
        return (location.array.first + location.vector) * self._config.vector_beats

    def _touched(self, operand: Operand, outer: int, inner: int) -> VectorSet:
        key = operand, outer, inner
        if key not in self._known:
            last = operand.address + (outer - 1) * operand.outer + (inner - 1) * operand.inner
            if last >= self._depths[operand.memory]:
                raise PlanError(f"{operand} reaches {last}, its memory has {self._depths[operand.memory]} vectors")
            self._known[key] = self._program.vectors(operand.memory, _mask(operand, outer, inner))
        return self._known[key]


def _used(array: Array) -> Section:
    """Give a token that says: the array has been read. STOREs of values computed from the array write the token."""
    return Section(f"{array.name} used")


@cache
def _mask(operand: Operand, outer: int, inner: int) -> int:
    """Give a bit for each vector that two nested loops run through."""
    run = sum(1 << n * operand.inner for n in range(inner)) if operand.inner else 1
    mask = 0
    for n in range(outer if operand.outer else 1):
        mask |= run << n * operand.outer
    return mask << operand.address


def _pieces(lane: Operand, location: Location, outer: int, inner: int) -> Iterator[tuple[Operand, Location, int, int]]:
    """Cut a transfer into pieces whose counts fit an instruction."""
    if inner > MOST_COUNTED and outer > 1:
        for n in range(outer):
            yield from _pieces(lane.at(n * lane.outer), location.at(n * inner), 1, inner)
        return
    step, most = (lane.outer, outer) if outer > 1 else (lane.inner, inner)
    for first in range(0, most, MOST_COUNTED):
        count = min(MOST_COUNTED, most - first)
        counts = (count, inner) if outer > 1 else (1, count)
        yield lane.at(first * step), location.at(first * (inner if outer > 1 else 1)), *counts
