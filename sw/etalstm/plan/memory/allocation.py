"""Allocates the arrays of a layer, product by product of its cell."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np

from etalstm.network.cells.cell import Cell, Product, Stage, count_vectors
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.plan.memory import layout
from etalstm.plan.memory.arrays import CellArrays, LayerArrays, ParameterArrays, allocate_tokens
from etalstm.plan.memory.integer_arrays import IntegerArrays, allocate
from etalstm.plan.memory.integer_changes import IntegerRoom
from etalstm.plan.memory.integer_tiling import IntegerTiling, tile_integer_batch, tile_integer_layer
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import Sequence
from etalstm.plan.memory.sent import SENDING_ARRAYS, TURNS, SendingRoom, SentOperand, ThresholdParameters
from etalstm.plan.memory.shards import Exchange, Shards
from etalstm.plan.memory.tiling import (
    NEEDED_ARRAYS,
    BatchTiles,
    LayerTiling,
    Partition,
    Span,
    ceil_div,
    stay,
    tile_batch,
    tile_layer,
)
from etalstm_hw.config import Config
from etalstm_hw.contract import MOST_GATES

# The bias of lanes that hold no unit. From a state of 0 a cell with these sums must give an output, a state and local
# gradients of 0: no stream keeps them, and nothing is broadcast.
CLOSED = -200.0


def machine_of_group(config: Config, groups: int) -> Config:
    """Give the machine that one of so many equal groups of channels is."""
    if groups not in config.group_counts:
        counts = ", ".join(map(str, config.group_counts))
        raise ValueError(f"groups must be one of {counts}, got {groups}")
    if groups == 1:
        return config
    return replace(config, channels=config.channels // groups, channels_per_port=1, broadcasters=1, port_bytes=0)


def share_of_lanes(config: Config, cell: Cell) -> Config:
    """Give the machine with the share of its lane memories that each stage of a cell has to itself.

    The memory of partial sums is not divided: it holds sums of one stage at a time.
    """
    shares = 1 << (len(cell.stages) - 1).bit_length()
    depths = ("scratch_depth", "weight_depth", "bias_depth")
    return replace(config, **{name: getattr(config, name) // shares for name in depths})


def share_of_product(lanes: Config, stage: Stage) -> Config:
    """Give the machine with the share of a stage's weight memory that each of its products has to itself."""
    shares = 1 << (len(stage.products) - 1).bit_length()
    return replace(lanes, weight_depth=lanes.weight_depth // shares)


def scratch_vectors(stage: Stage, sends: bool) -> int:
    """Count the scratch vectors that a stage needs for each unit and sequence.

    One that `sends` changes needs its sums beside the gates. They reuse the vectors of the local gradients.
    """
    if not sends:
        return stage.vectors
    besides = max(count_vectors(stage.local_arrays), len(stage.gates)) + SENDING_ARRAYS
    return max(stage.vectors, count_vectors(stage.forward_arrays) + besides)


def batch_of(
    config: Config, cell: Cell, hidden_size: int, batch: int, slices: int, *, sends: bool = False
) -> BatchTiles:
    """Choose how many sequences are worked on together: as many as every stage allows."""
    if config.integers:
        (stage,) = cell.stages
        return tile_integer_batch(config, stage, hidden_size, batch, sends=sends)
    lanes = share_of_lanes(config, cell)
    tiles = [
        tile_batch(
            share_of_product(lanes, stage), len(stage.gates), scratch_vectors(stage, sends), hidden_size, batch, slices
        )
        for stage in cell.stages
    ]
    return min(tiles, key=lambda tile: tile.most)


class LayerAllocation:
    """Allocates one layer.

    Parameters
    ----------
    gradient_sums, together, every_delta : bool
        With integers, see :class:`etalstm.plan.memory.network_map.NetworkMap`.
    number : int             of the layer
    execution : Execution    of the network
    partials : int           arrays for gradients that are put aside
    tokens : int             distinct tokens of a group's part whose sums are shared; 0: x are no tokens
    """

    def __init__(
        self, config: Config, into: MemoryMap, network: NetworkShape, cell: Cell, gradient_sums: bool, together: bool,
        every_delta: bool, number: int, batch: BatchTiles, steps: int, execution: Execution, masked: bool,
        partials: int, tokens: int,
    ):  # fmt: skip
        self._narrow, self._tokens = execution.narrow, tokens
        self._gradient_sums, self._together, self._every_delta = gradient_sums, together or number > 0, every_delta
        self._lanes, self._memory, self._network, self._cell = share_of_lanes(config, cell), into, network, cell
        self._number, self._storage, self._masked = number, execution.storage.layer(number), masked
        self._batch, self._steps, self._partials = batch, steps, partials
        self._exact, delta_inputs = execution.arithmetic.exact, execution.delta_inputs.layer(number)
        self._delta_inputs = delta_inputs.of_integers if self._exact else delta_inputs
        self._units = Partition(network.hidden_size, config.channels, config.lanes)
        self._shared: dict[str, Sequence] = {}
        self.shards = [
            Shards(self._tiling(stage, product), into.groups) for stage in cell.stages for product in stage.products
        ]

    def _tiling(self, stage: Stage, product: Product) -> LayerTiling:
        inputs = self._network.inputs_of(self._number) if product.operands[0] == "x" else 0
        gates, vectors = (len(product.gates), len(stage.gates)), scratch_vectors(stage, not self._delta_inputs.off)
        sizes, lanes = (inputs, self._network.hidden_size), share_of_product(self._lanes, stage)
        if self._exact:
            return tile_integer_layer(lanes, stage, self._batch, *sizes, sends=not self._delta_inputs.off)
        return tile_layer(lanes, *gates, vectors, self._batch, *sizes, self._narrow)

    def share(self, name: str, sequence: Sequence) -> None:
        """Let the layer have another one's sequence of all units, which that one does not need at the same time."""
        self._shared[name] = sequence

    def allocate(
        self, below: CellArrays | None, exchange: Exchange | None, room: SendingRoom | None,
        of_integers: IntegerRoom | None,
    ) -> CellArrays:  # fmt: skip
        """Allocate all products; gives the last.

        `below` is the layer below. All layers share `exchange`, None if there is one group of channels. Where only
        changes of their operands are sent, they share `room`, or `of_integers`.
        """
        self._below, self._exchange, self._room_of_integers = below, exchange, of_integers
        made: list[LayerArrays] = []
        products = [(stage, product) for stage in self._cell.stages for product in stage.products]
        for (stage, product), shards in zip(products, self.shards, strict=True):
            made.append(self._product(stage, product, shards, tuple(made), room))
        assert isinstance(made[-1], CellArrays)  # so is the last product of every cell
        return made[-1]

    def _product(
        self, stage: Stage, product: Product, shards: Shards, earlier: tuple[LayerArrays, ...], room: SendingRoom | None
    ) -> LayerArrays:
        """Allocate one product. The order of the arrays is that of the memory."""
        takes_x, tiling, has_stage = product.operands[0] == "x", shards.tiling, product is stage.products[-1]
        is_last = has_stage and stage is self._cell.stages[-1]
        suffix = f"{self._number}" if is_last else f"{self._number}_{product.gates[0]}"
        name, compressed, steps = product.operands[-1], self._storage.compressed, self._steps
        x = self._inputs(tiling) if takes_x else None
        operand, operand_step = self._of_units(name, steps + 1), 0 if name == self._cell.output else 1
        parameters = self._integer_parameters(tiling, suffix) if self._exact else self._parameters(shards, suffix)
        outputs = tuple(self._of_units(output, steps + 1) for output in stage.outputs) if has_stage else ()
        c = self._sequence("c", "intermediates", self._units, 1 if compressed else steps + 1) if is_last else None
        sent = self._sent(room, tiling, x, operand, operand_step) if room and x else ()
        tokens = None
        if takes_x and self._tokens and not self._exact:
            tokens = allocate_tokens(self._lanes, self._memory, tiling, self._batch, steps, self._tokens)
        index = self._index(len(stage.kept), tiling, suffix) if compressed and has_stage and stage.kept else None
        delta = None if compressed or self._exact else self._gates(f"delta{suffix}", tiling)
        delta_index = needed = None
        if compressed and not self._exact:
            delta_index, needed = self._delta_index(tiling, suffix), self._needed(tiling, suffix)
        dy = self._of_units("dy", steps) if is_last else None
        dx = self._input_gradient(tiling) if takes_x else None
        operand_gradient = self._of_units(f"d{name}", 1)
        dc = self._of_units("dc", 1) if is_last else None
        dh_sum = self._of_units("dh_sum", 1) if self._masked else None
        integers = self._integers(tiling, parameters) if self._exact else None
        arrays = LayerArrays(
            **vars(parameters), number=self._number, cell=self._cell, stage=stage, product=product, earlier=earlier,
            lanes=share_of_product(self._lanes, stage), tiling=tiling, shards=shards, storage=self._storage,
            exchange=self._exchange, x=x, x_step=1 if self._below else 0, dx=dx, operand=operand,
            operand_step=operand_step, operand_gradient=operand_gradient, outputs=outputs,
            output_gradients=tuple(self._of_units(name, 1) for name in stage.gradients) if has_stage else (),
            index=index, delta=delta, delta_index=delta_index, needed=needed, dh_sum=dh_sum, tokens=tokens,
            delta_inputs=self._delta_inputs, operands_sent=sent, sums=room.sums(tiling) if room else None,
            integers=integers,
        )  # fmt: skip
        return CellArrays(**vars(arrays), c=c, dy=dy, dc=dc) if c and dy and dc else arrays

    def _parameters(self, shards: Shards, suffix: str) -> ParameterArrays:
        tiling, add, add_shards, slices = shards.tiling, self._memory.add, self._memory.add_shards, self._batch.slices
        width, height = tiling.inputs.size + tiling.units.size, tiling.gates * tiling.units.size
        of_unit = tiling.gates * tiling.units.tiles
        of_shards = shards.vectors, cache(partial(layout.shards_elements, shards)), (height, width)
        norms = sum(c.count for c in shards.normed), partial(layout.norms_elements, shards), (width,)
        biases = of_unit, cache(partial(layout.bias_elements, tiling)), (height,)

        def sums(of: str) -> tuple[Array, Array]:
            gradient = add_shards(f"gradient{suffix}_{of}", "optimizer", *of_shards)
            return gradient, add(f"bias_gradient{suffix}_{of}", "optimizer", *biases)

        rows, columns, weights = self._weights(tiling, suffix, of_shards)
        return ParameterArrays(
            rows=rows,
            columns=columns,
            weights=weights,
            gradient=add_shards(f"gradient{suffix}", "optimizer", *of_shards),
            velocity=add_shards(f"velocity{suffix}", "optimizer", *of_shards),
            bias=add(f"bias{suffix}", "weights", *biases, CLOSED),
            bias_gradient=add(f"bias_gradient{suffix}", "optimizer", *biases),
            bias_velocity=add(f"bias_velocity{suffix}", "optimizer", *biases),
            norms=add_shards(f"norms{suffix}", "optimizer", *norms),
            bias_sums=self._memory.add_raw(f"bias_sums{suffix}", "optimizer", slices * of_unit) if slices > 1 else None,
            group_bias=add(f"bias_gradient{suffix}_group", "optimizer", *biases) if self._exchange else None,
            partial=[sums(f"aside{n}") for n in range(self._partials)],
        )

    def _integer_parameters(self, tiling: LayerTiling, suffix: str) -> ParameterArrays:
        """Allocate weights, gradients and velocities by rows, [column][tile of units][gate]: a shard for each group."""
        of_unit, add, parts = tiling.gates * tiling.units.tiles, self._memory.add, self._memory.groups
        width, height = tiling.inputs.size + tiling.units.size, tiling.gates * tiling.units.size
        whole = replace(tiling, unit_spans=[Span(0, tiling.units.tiles)])
        of_shard, add_shards = ceil_div(of_unit, parts), self._memory.add_shards

        def shards(make_elements: Callable[[], np.ndarray]) -> Callable[[], np.ndarray]:
            return cache(lambda: layout.row_shards_elements(make_elements(), of_unit, parts))

        of_rows = tiling.depth * of_shard, shards(partial(layout.row_copy_elements, whole)), (height, width)
        of_biases = partial(layout.bias_elements, tiling)
        biases = of_unit, cache(of_biases), (height,)
        of_group = f"bias_gradient{suffix}_group", "optimizer", of_unit
        weights = add_shards(f"weights{suffix}", "weights", *of_rows)
        return ParameterArrays(
            rows=weights, columns=weights, weights=weights,
            gradient=add_shards(f"gradient{suffix}", "optimizer", *of_rows),
            velocity=add_shards(f"velocity{suffix}", "optimizer", *of_rows),
            bias=add(f"bias{suffix}", "weights", *biases, CLOSED),
            bias_gradient=add(f"bias_gradient{suffix}", "optimizer", *biases),
            bias_velocity=add(f"bias_velocity{suffix}", "optimizer", *biases),
            norms=add_shards(f"norms{suffix}", "optimizer", of_shard, shards(of_biases), (height,)),
            bias_sums=None, group_bias=self._memory.add_raw(*of_group) if parts > 1 else None, partial=[],
        )  # fmt: skip

    def _integers(self, tiling: LayerTiling, parameters: ParameterArrays) -> IntegerArrays:
        """Allocate what integers have beside."""
        sizes = self._lanes, tiling.gates, tiling.inputs, tiling.units, self._batch, self._steps, self._memory.groups
        below = self._below.integers if self._below else None
        summed = parameters.gradient if self._gradient_sums else None
        others = below, self._room_of_integers, self._together, summed, self._tokens, self._every_delta
        return allocate(self._memory, IntegerTiling(*sizes), self._number, *others)

    def _weights(
        self, tiling: LayerTiling, suffix: str, of_shards: tuple[int, Callable[[], np.ndarray], tuple[int, int]]
    ) -> tuple[Array, Array, Array]:
        """Allocate the copies of a stage's weights; where they are narrow, also the weights, in shards."""
        add, narrow, matrix = self._memory.add, self._narrow, of_shards[-1]
        of_rows = tiling.depth * tiling.row_vectors, partial(layout.row_copy_elements, tiling), matrix
        of_columns = tiling.rows * tiling.column_vectors, partial(layout.column_copy_elements, tiling), matrix
        rows = add(f"rows{suffix}", "weights", *of_rows, narrow=narrow)
        columns = add(f"columns{suffix}", "weights", *of_columns, narrow=narrow)
        weights = self._memory.add_shards(f"weights{suffix}", "weights", *of_shards) if narrow else columns
        return rows, columns, weights

    def _sent(
        self, room: SendingRoom, tiling: LayerTiling, x: Sequence, operand: Sequence, operand_step: int
    ) -> tuple[SentOperand, SentOperand]:
        """Allocate what has been sent of x and of the other operand."""
        of_x = tiling.inputs, x, 1 if self._below else 0, room.x_streams, room.x_collected(tiling)
        of_operand = tiling.units, operand, operand_step, room.operand_streams, room.operand_collected(tiling)
        sent_x = self._sent_operand("x", *of_x, room.parameters[self._delta_inputs.x])
        return sent_x, self._sent_operand("operand", *of_operand, room.parameters[self._delta_inputs.h])

    def _sent_operand(
        self, name: str, partition: Partition, values: Sequence, first: int, streams: Array, collected: Sequence,
        parameters: ThresholdParameters,
    ) -> SentOperand:  # fmt: skip
        indices, maps = (steps * self._batch.count * partition.tiles for steps in (self._steps, TURNS))
        tiling = self.shards[-1].tiling
        has_maps = parameters.scale is not None and not stay(self._lanes, tiling.row_vectors, tiling.depth)
        return SentOperand(
            partition=partition,
            values=values,
            first=first,
            sent=self._sequence(f"sent_{name}", "activations", partition, self._steps),
            index=self._memory.add_raw(f"{name}_changes{self._number}", "activations", indices),
            streams=streams,
            collected=collected,
            parameters=parameters,
            needed=self._memory.add_raw(f"{name}_needed{self._number}", "activations", maps) if has_maps else None,
        )

    def _index(self, kinds: int, tiling: LayerTiling, suffix: str) -> Array:
        streams = self._steps * self._batch.count * len(tiling.unit_spans) * kinds
        return self._memory.add_raw(f"index{suffix}", "intermediates", streams)

    def _delta_index(self, tiling: LayerTiling, suffix: str) -> Array:
        streams = self._steps * self._batch.count * tiling.units.tiles
        return self._memory.add_raw(f"delta_index{suffix}", "deltas", streams)

    def _needed(self, tiling: LayerTiling, suffix: str) -> Array | None:
        if tiling.gates != MOST_GATES or stay(self._lanes, tiling.column_vectors, tiling.rows):
            return None
        return self._memory.add_raw(f"needed{suffix}", "deltas", NEEDED_ARRAYS * tiling.units.tiles)

    def _inputs(self, tiling: LayerTiling) -> Sequence:
        return self._below.h if self._below else self._sequence("x", "activations", tiling.inputs, self._steps)

    def _input_gradient(self, tiling: LayerTiling) -> Sequence:
        return self._below.dy if self._below else self._sequence("dx", "activations", tiling.inputs, self._steps)

    def _of_units(self, name: str, length: int) -> Sequence:
        """Give a sequence of all units that stages share; the first that needs it allocates it."""
        if name not in self._shared:
            self._shared[name] = self._sequence(name, "activations", self._units, length)
        return self._shared[name]

    def _sequence(self, name: str, kind: str, partition: Partition, length: int) -> Sequence:
        elements = partial(layout.sequence_elements, partition, length, self._batch)
        shape = (length, self._batch.batch, partition.size)
        vectors = length * self._batch.vectors * partition.tiles
        return Sequence(
            self._memory.add(f"{name}{self._number}", kind, vectors, elements, shape, batch_axis=1),
            partition.tiles,
            self._batch,
        )

    def _gates(self, name: str, tiling: LayerTiling) -> Sequence:
        elements = partial(layout.sequence_elements, tiling.units, self._steps, self._batch, gates=tiling.gates)
        shape = (self._steps, self._batch.batch, tiling.gates, tiling.units.size)
        tiles = tiling.gates * tiling.units.tiles
        vectors = self._steps * self._batch.vectors * tiles
        return Sequence(self._memory.add(name, "deltas", vectors, elements, shape, batch_axis=1), tiles, self._batch)
