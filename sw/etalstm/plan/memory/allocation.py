"""Allocates the arrays of a layer, product by product of its cell."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from etalstm.network.cells.cell import Cell, Product, Stage, count_vectors
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.plan.memory import layout
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.exchange import Exchange
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import Sequence
from etalstm.plan.memory.sent import SENDING_ARRAYS, TURNS, SendingRoom, SentOperand
from etalstm.plan.memory.shards import Shards
from etalstm.plan.memory.tiling import NEEDED_ARRAYS, BatchTiles, LayerTiling, Share, stay, tile_batch, tile_layer
from etalstm.plan.memory.tokens import TokenArrays, allocate_tokens
from etalstm_hw.config import Config
from etalstm_hw.contract import MOST_GATES

# The bias of lanes that hold no unit. From a state of 0 a cell with these sums must give an output, a state and local
# gradients of 0: no stream keeps them, and nothing is broadcast.
CLOSED = -200.0


def share_of_lanes(config: Config, cell: Cell) -> Config:
    """Give the machine with the part of its lane memories that each stage of a cell has to itself.

    The queue is not divided: it holds sums of one stage at a time.
    """
    parts = 1 << (len(cell.stages) - 1).bit_length()
    depths = ("scratch_depth", "weight_depth", "bias_depth")
    return replace(config, **{name: getattr(config, name) // parts for name in depths})


def share_of_product(lanes: Config, stage: Stage) -> Config:
    """Give the machine with the part of a stage's weight memory that each of its products has to itself."""
    parts = 1 << (len(stage.products) - 1).bit_length()
    return replace(lanes, weight_depth=lanes.weight_depth // parts)


def scratch_vectors(stage: Stage, sends: bool) -> int:
    """Count the scratch vectors that a stage needs for each unit and sequence.

    One that `sends` changes needs its sums beside the gates. They have the place of the local gradients, if not less.
    """
    if not sends:
        return stage.vectors
    besides = max(count_vectors(stage.local_arrays), len(stage.gates)) + SENDING_ARRAYS
    return max(stage.vectors, count_vectors(stage.forward_arrays) + besides)


def batch_of(
    config: Config, cell: Cell, hidden_size: int, batch: int, slices: int, *, sends: bool = False
) -> BatchTiles:
    """Choose how many sequences are worked on together: as many as every stage allows."""
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
    config : Config
    into : MemoryMap
    network : NetworkShape
    cell : Cell
    number : int
        Of the layer.
    batch : BatchTiles
    steps : int
    execution : Execution
        Of the network.
    masked : bool
    partials : int
        Places for gradients that are put aside.
    tokens : int
        Distinct tokens of a group's part whose sums are shared; 0: x are no tokens.
    """

    def __init__(
        self, config: Config, into: MemoryMap, network: NetworkShape, cell: Cell, number: int, batch: BatchTiles,
        steps: int, execution: Execution, masked: bool, partials: int, tokens: int,
    ):  # fmt: skip
        self._narrow, self._tokens = execution.narrow, tokens
        self._lanes, self._memory, self._network, self._cell = share_of_lanes(config, cell), into, network, cell
        self._number, self._storage, self._masked = number, execution.storage.layer(number), masked
        self._batch, self._steps, self._partials = batch, steps, partials
        self._delta_inputs = execution.delta_inputs.layer(number)
        self._units = Share(network.hidden_size, config.channels, config.lanes)
        self._shared: dict[str, Sequence] = {}
        self.shards = [
            Shards(self._tiling(stage, product), into.groups) for stage in cell.stages for product in stage.products
        ]

    def _tiling(self, stage: Stage, product: Product) -> LayerTiling:
        inputs = self._network.inputs_of(self._number) if product.operands[0] == "x" else 0
        gates, vectors = (len(product.gates), len(stage.gates)), scratch_vectors(stage, not self._delta_inputs.off)
        sizes, lanes = (inputs, self._network.hidden_size), share_of_product(self._lanes, stage)
        return tile_layer(lanes, *gates, vectors, self._batch, *sizes, self._narrow)

    def allocate(
        self, below: LayerArrays | None, exchange: Exchange | None, room: SendingRoom | None, parameters: dict
    ) -> LayerArrays:
        """Allocate all products; gives the last.

        Parameters
        ----------
        below : LayerArrays or None
            The layer below.
        exchange : Exchange or None
            Of all layers; None if there is one group of channels.
        room : SendingRoom or None
            Of all layers; None if their operands are sent whole.
        parameters : dict
            From an input threshold to its :class:`ThresholdParameters`.
        """
        self._below, self._exchange, arrays = below, exchange, None
        self._room, self._parameters_of = room, parameters
        products = [(stage, product) for stage in self._cell.stages for product in stage.products]
        for (stage, product), shards in zip(products, self.shards, strict=True):
            arrays = self._product(stage, product, shards, arrays.products if arrays else ())
        return arrays

    def _product(self, stage: Stage, product: Product, shards: Shards, earlier: tuple[LayerArrays, ...]) -> LayerArrays:
        takes_x, tiling, has_stage = product.operands[0] == "x", shards.tiling, product is stage.products[-1]
        is_last = has_stage and stage is self._cell.stages[-1]
        suffix = f"{self._number}" if is_last else f"{self._number}_{product.gates[0]}"
        operands = self._operands(product, tiling, takes_x)
        return LayerArrays(
            number=self._number,
            cell=self._cell,
            stage=stage,
            product=product,
            earlier=earlier,
            lanes=share_of_product(self._lanes, stage),
            tiling=tiling,
            shards=shards,
            storage=self._storage,
            **self._parameters(shards, suffix),
            **operands,
            outputs=tuple(self._of_units(output, self._steps + 1) for output in stage.outputs) if has_stage else (),
            c=self._state() if is_last else None,
            delta_inputs=self._delta_inputs,
            **self._sent(tiling, operands),
            tokens=self._token_arrays(tiling) if takes_x and self._tokens else None,
            **self._kept(len(stage.kept) if has_stage else 0, tiling, suffix),
            **self._gradients(product, tiling, takes_x, is_last),
            output_gradients=tuple(self._of_units(name, 1) for name in stage.gradients) if has_stage else (),
        )

    def _parameters(self, shards: Shards, suffix: str) -> dict[str, Array]:
        """Allocate a stage's matrix and bias, and what belongs to them."""
        tiling, add = shards.tiling, self._memory.add
        width, height = tiling.inputs.size + tiling.units.size, tiling.gates * tiling.units.size
        of_unit = tiling.gates * tiling.units.tiles
        of_shards = shards.vectors, _once(layout.shards_index, shards), (height, width)
        state = "optimizer", *of_shards
        norms = "optimizer", sum(c.count for c in shards.normed), partial(layout.norms_index, shards), (width,)
        biases = of_unit, _once(layout.bias_index, tiling), (height,)

        def sums(of: str) -> tuple[Array, Array]:
            gradient = self._memory.add_shards(f"gradient{suffix}_{of}", *state)
            return gradient, add(f"bias_gradient{suffix}_{of}", "optimizer", *biases)

        return {
            **self._weights(tiling, suffix, of_shards),
            "gradient": self._memory.add_shards(f"gradient{suffix}", *state),
            "velocity": self._memory.add_shards(f"velocity{suffix}", *state),
            "bias": add(f"bias{suffix}", "weights", *biases, CLOSED),
            "bias_gradient": add(f"bias_gradient{suffix}", "optimizer", *biases),
            "bias_velocity": add(f"bias_velocity{suffix}", "optimizer", *biases),
            "norms": self._memory.add_shards(f"norms{suffix}", *norms),
            "bias_sums": self._bias_sums(f"bias_sums{suffix}", of_unit),
            "exchange": self._exchange,
            "group_bias": add(f"bias_gradient{suffix}_group", "optimizer", *biases) if self._exchange else None,
            "partial": [sums(f"aside{n}") for n in range(self._partials)],
        }

    def _weights(self, tiling: LayerTiling, suffix: str, of_shards: tuple) -> dict[str, Array]:
        """Allocate the copies of a stage's weights; where they are narrow, also the weights, in shards."""
        add, narrow, matrix = self._memory.add, self._narrow, of_shards[-1]
        rows = tiling.depth * tiling.row_vectors, partial(layout.row_copy_index, tiling), matrix
        columns = tiling.rows * tiling.column_vectors, partial(layout.column_copy_index, tiling), matrix
        copies = {
            "rows": add(f"rows{suffix}", "weights", *rows, narrow=narrow),
            "columns": add(f"columns{suffix}", "weights", *columns, narrow=narrow),
        }
        if not narrow:
            return copies | {"weights": copies["columns"]}
        return copies | {"weights": self._memory.add_shards(f"weights{suffix}", "weights", *of_shards)}

    def _bias_sums(self, name: str, vectors: int) -> Array | None:
        """Allocate db of every slice, where there are several."""
        slices = self._batch.slices
        return self._memory.add_raw(name, "optimizer", slices * vectors) if slices > 1 else None

    def _operands(self, product: Product, tiling: LayerTiling, takes_x: bool) -> dict[str, Sequence | int | None]:
        """Allocate what a product broadcasts."""
        operand = product.operands[-1]
        return {
            "x": self._inputs(tiling) if takes_x else None,
            "x_step": 1 if self._below else 0,
            "operand": self._of_units(operand, self._steps + 1),
            "operand_step": 0 if operand == self._cell.output else 1,
        }

    def _sent(self, tiling: LayerTiling, operands: dict) -> dict[str, SentOperand | Sequence | None]:
        """Allocate what has been sent of the operands, and what lasts from step to step while changes are sent."""
        if self._delta_inputs.off:
            return {"sent_x": None, "sent_operand": None, "sums": None}
        room, delta_inputs = self._room, self._delta_inputs
        x = self._sent_operand("x", tiling.inputs, operands, room.x_streams, room.x_collected(tiling), delta_inputs.x)
        collected = room.operand_collected(tiling)
        operand = self._sent_operand("operand", tiling.units, operands, room.operand_streams, collected, delta_inputs.h)
        return {"sent_x": x, "sent_operand": operand, "sums": room.sums(tiling)}

    def _token_arrays(self, tiling: LayerTiling) -> TokenArrays:
        return allocate_tokens(self._lanes, self._memory, tiling, self._batch, self._steps, self._tokens)

    def _sent_operand(
        self, name: str, share: Share, operands: dict, streams: Array, collected: Sequence, threshold: float
    ) -> SentOperand:
        indices, maps = (steps * self._batch.count * share.tiles for steps in (self._steps, TURNS))
        parameters, tiling = self._parameters_of[threshold], self.shards[-1].tiling
        has_maps = parameters.scale is not None and not stay(self._lanes, tiling.row_vectors, tiling.depth)
        return SentOperand(
            share=share,
            values=operands[name],
            first=operands[f"{name}_step"],
            sent=self._sequence(f"sent_{name}", "activations", share, self._steps),
            index=self._memory.add_raw(f"{name}_changes{self._number}", "activations", indices),
            streams=streams,
            collected=collected,
            parameters=parameters,
            needed=self._memory.add_raw(f"{name}_needed{self._number}", "activations", maps) if has_maps else None,
        )

    def _kept(self, kinds: int, tiling: LayerTiling, suffix: str) -> dict[str, Sequence | Array | None]:
        """Allocate what the backward pass needs but the kept tensors themselves: δ, the streams' indices, row maps."""
        if not self._storage.compressed:
            return {"index": None, "delta": self._gates(f"delta{suffix}", tiling), "delta_index": None, "needed": None}
        parts = self._steps * self._batch.count
        has_map = tiling.gates == MOST_GATES and not stay(self._lanes, tiling.column_vectors, tiling.rows)

        def raw(name, kind, count):
            return self._memory.add_raw(f"{name}{suffix}", kind, count)

        return {
            "index": raw("index", "intermediates", parts * len(tiling.unit_groups) * kinds) if kinds else None,
            "delta": None,
            "delta_index": raw("delta_index", "deltas", parts * tiling.units.tiles),
            "needed": raw("needed", "deltas", NEEDED_ARRAYS * tiling.units.tiles) if has_map else None,
        }

    def _gradients(
        self, product: Product, tiling: LayerTiling, takes_x: bool, is_last: bool
    ) -> dict[str, Sequence | None]:
        """Allocate the gradients that leave a product, and those of a cell that arrive at it."""
        return {
            "dy": self._of_units("dy", self._steps) if is_last else None,
            "dx": self._input_gradient(tiling) if takes_x else None,
            "operand_gradient": self._of_units(f"d{product.operands[-1]}", 1),
            "dc": self._of_units("dc", 1) if is_last else None,
            "dh_sum": self._of_units("dh_sum", 1) if self._masked else None,
        }

    def _inputs(self, tiling: LayerTiling) -> Sequence:
        return self._below.h if self._below else self._sequence("x", "activations", tiling.inputs, self._steps)

    def _input_gradient(self, tiling: LayerTiling) -> Sequence:
        return self._below.dy if self._below else self._sequence("dx", "activations", tiling.inputs, self._steps)

    def _state(self) -> Sequence:
        return self._sequence("c", "intermediates", self._units, 1 if self._storage.compressed else self._steps + 1)

    def _of_units(self, name: str, length: int) -> Sequence:
        """Give a sequence of all units that stages share; the first that needs it allocates it."""
        if name not in self._shared:
            self._shared[name] = self._sequence(name, "activations", self._units, length)
        return self._shared[name]

    def _sequence(self, name: str, kind: str, share: Share, length: int) -> Sequence:
        index = partial(layout.sequence_index, share, length, self._batch)
        shape = (length, self._batch.batch, share.size)
        vectors = length * self._batch.vectors * share.tiles
        return Sequence(
            self._memory.add(f"{name}{self._number}", kind, vectors, index, shape, batch_axis=1),
            share.tiles,
            self._batch,
        )

    def _gates(self, name: str, tiling: LayerTiling) -> Sequence:
        index = partial(layout.gates_index, tiling.units, tiling.gates, self._steps, self._batch)
        shape = (self._steps, self._batch.batch, tiling.gates, tiling.units.size)
        tiles = tiling.gates * tiling.units.tiles
        vectors = self._steps * self._batch.vectors * tiles
        return Sequence(self._memory.add(name, "deltas", vectors, index, shape, batch_axis=1), tiles, self._batch)


def _once(make: Callable, *arguments):
    """Give a function that makes something when it is first asked for, and the same from then on."""
    return cache(partial(make, *arguments))
