"""Where everything of a network lies, how each of its layers is divided, and which cells the machine can run."""

from collections.abc import Callable
from copy import copy
from functools import partial

from etalstm.errors import PlanError
from etalstm.network.arithmetic import Arithmetic
from etalstm.network.cells.cell import Cell
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.slices import Parts, most_totals
from etalstm.plan.memory import layout
from etalstm.plan.memory.allocation import LayerAllocation, batch_of
from etalstm.plan.memory.arrays import CellArrays, LayerArrays
from etalstm.plan.memory.integer_changes import IntegerRoom
from etalstm.plan.memory.memory_map import MemoryMap
from etalstm.plan.memory.operands import Location, Log, Sequence
from etalstm.plan.memory.sent import SendingRoom, threshold_parameters
from etalstm.plan.memory.shards import allocate_exchange
from etalstm.plan.memory.stored import Segment, StoredIntermediates, everything
from etalstm.plan.memory.tiling import Span
from etalstm_hw.config import Config
from etalstm_hw.contract import MOST_GATES, PARAMETER_DELTA_THRESHOLD, PARAMETER_THRESHOLDS
from etalstm_hw.contract.integers import WEIGHT_BITS, largest_mantissa

MOST_KINDS = PARAMETER_DELTA_THRESHOLD - PARAMETER_THRESHOLDS


def check_plannable(cell: Cell) -> None:
    """Raise ``PlanError`` if a cell has more gates or kinds of local gradients than the machine, or other operands.

    A product can be with x, and then with one output of a stage. Products of one stage have as many gates.
    """
    if len(cell.kinds) > MOST_KINDS:
        raise PlanError(f"the machine has {MOST_KINDS} thresholds of local gradients, {cell.name} keeps {cell.kinds}")
    for stage in cell.stages:
        if len(stage.gates) > MOST_GATES:
            raise PlanError(f"a stage can have {MOST_GATES} gates: {cell.name} has {stage.gates}")
        if len({len(product.gates) for product in stage.products}) > 1:
            raise PlanError(f"the products of a stage must have as many gates: {cell.name} has {stage.products}")
    for product in cell.products:
        outputs = product.operands[product.operands[0] == "x" :]
        if len(outputs) != 1 or "x" in outputs:
            raise PlanError(f"a product can be with x and one output, or one output: {cell.name} has {product}")


def check_packable(cell: Cell) -> None:
    """Raise ``PlanError`` if pairs of a cell's rows would belong to different units: narrow weights need even gates."""
    for product in cell.products:
        if len(product.gates) % 2:
            raise PlanError(f"weights in bf16 need products of 2 or 4 gates, {cell.name} has one of {product.gates}")


def check_sendable(cell: Cell) -> None:
    """Raise ``PlanError`` if the machine cannot send only the changes of a cell's operands."""
    if len(cell.stages) > 1 or [product.operands for product in cell.products] != [("x", cell.output)]:
        raise PlanError(f"only a cell of one stage has delta inputs, {cell.name} has {len(cell.stages)}")


def check_arithmetic(config: Config, cell: Cell, arithmetic: Arithmetic) -> None:
    """Raise ``PlanError`` if a machine cannot compute a cell in an arithmetic.

    Of integers a cell must have one stage, whose product is with x and with its output.
    """
    if arithmetic.exact != config.integers:
        products = f"integers, {config.integer_pes} PEs in a lane" if config.integers else "float32"
        raise PlanError(f"products of this machine are {products}: arithmetic cannot be {arithmetic.name}")
    if not config.integers:
        return
    if arithmetic.bits != WEIGHT_BITS:
        raise PlanError(f"integers of this machine have {WEIGHT_BITS} bits, arithmetic {arithmetic.name} has others")
    if [product.operands for product in cell.products] != [("x", cell.output)]:
        raise PlanError(f"with integers the machine has cells of one product, {cell.name} has {cell.products}")


def check_gate_sums(execution: Execution, terms: int) -> None:
    """Raise ``PlanError`` if a gate's sum of so many terms does not fit a word, where sums stay from step to step."""
    of_integers = execution.arithmetic.exact and not execution.delta_inputs.off
    if of_integers and terms > (most := ((1 << 31) - 1) // largest_mantissa(WEIGHT_BITS) ** 2):
        raise PlanError(f"with delta inputs a word holds the sum of {most:,} terms, a gate has {terms:,}")


def check_bias_sums(arithmetic: Arithmetic, terms: int) -> None:
    """Raise ``PlanError`` if the sum of so many δ does not fit a word."""
    if arithmetic.exact and terms > (most := ((1 << 31) - 1) // largest_mantissa(arithmetic.delta_bits)):
        raise PlanError(
            f"a word holds the sum of {most:,} integers of δ of {arithmetic.delta_bits} bits, an iteration of all "
            f"steps and sequences has {terms:,}"
        )


class NetworkMap:
    """Memory map of a network on a machine.

    Parameters
    ----------
    config : Config          the machine of one group of channels
    division : Parts         the batch, its slices, and the part of each group
    steps : int              steps T of an iteration
    execution : Execution    how the network is computed
    masked : bool            sequences may be shorter than T
    share : function         from a log's number to its room, as a share of what its streams need if they drop nothing
    segments : list of Segment, optional    cells whose intermediates share a region; by default all do
    every_delta : bool
        Compressed δ of all layers stay until the next pass; else those of a layer until its weights' gradient is done.
        With integers this is what is sent for the weights' gradients.
    parts : int              parts of a larger batch that are worked on one after the other, of which this is one
    layers_apart : bool      the backward pass has a program for each layer
    gradient_sums : bool     with integers, the host wants the sums of the gradients
    together : bool          with integers, a gate of the first layer has one sum with both operands, as of those above

    Raises ``PlanError`` if a layer cannot be divided so that it fits the lane memories.

    Members
    -------
    batch : BatchTiles             of a group's part
    layers : list of CellArrays    the last product of each layer's cell
    stored : StoredIntermediates   addresses of the intermediates
    """

    def __init__(
        self, config: Config, network: NetworkShape, division: Parts, steps: int, execution: Execution, masked: bool,
        share: Callable[[int], float], segments: list[Segment] | None, every_delta: bool, parts: int, cell: Cell,
        layers_apart: bool = False, gradient_sums: bool = False, together: bool = False,
    ):  # fmt: skip
        check_plannable(cell)
        delta_inputs = execution.delta_inputs
        if execution.narrow:
            check_packable(cell)
        if not delta_inputs.off:
            check_sendable(cell)
        check_arithmetic(config, cell, execution.arithmetic)
        check_bias_sums(execution.arithmetic, steps * division.batch)
        check_gate_sums(execution, max(map(network.inputs_of, range(network.layers))) + network.hidden_size)
        self.delta_bits = execution.arithmetic.delta_bits
        self.config, self.network, self.division, self.steps = config, network, division, steps
        self.memory = MemoryMap(config, division)
        sizes = network.hidden_size, division.places, division.slices_of_part
        self.batch = batch_of(config, cell, *sizes, sends=not delta_inputs.off)
        self.mask = self._masks() if masked or not division.full else None
        masked = self.mask is not None
        partials = most_totals(parts, backwards=True) - 1
        context = config, self.memory, network, cell, gradient_sums, together, every_delta
        tokens = min(execution.shared_tokens or 0, steps * division.places)
        allocations = [
            LayerAllocation(*context, number, self.batch, steps, execution, masked, partials, 0 if number else tokens)
            for number in range(network.layers)
        ]
        exchange = None
        if not config.integers:
            exchange = allocate_exchange(self.memory, [shards for layer in allocations for shards in layer.shards])
        tilings = [allocation.shards[-1].tiling for allocation in allocations]
        room = of_integers = None
        if not delta_inputs.off and config.integers:
            of_integers = IntegerRoom(self.memory, tilings, self.batch.vectors, delta_inputs)
        elif not delta_inputs.off:
            room = SendingRoom(self.memory, self.batch, tilings, threshold_parameters(delta_inputs, network.layers))
        self.layers: list[CellArrays] = []
        for number, allocation in enumerate(allocations):
            below = self.layers[-1] if self.layers else None
            # With integers gradients between layers lie in two arrays, in turn. Those of the last layer are the host's.
            if config.integers and 2 <= number < network.layers - 1:
                allocation.share("dy", self.layers[number - 2].dy)
            self.layers.append(allocation.allocate(below, exchange, room, of_integers))
        segments = segments or everything(network.layers, steps)
        self.stored = StoredIntermediates(config, self.memory, self.layers, share, segments, every_delta, layers_apart)

    def _masks(self) -> Sequence:
        elements = partial(layout.mask_elements, self.config, self.steps, self.batch)
        vectors, shape = self.steps * self.batch.vectors, (self.steps, self.division.places)
        return Sequence(self.memory.add("mask", "activations", vectors, elements, shape, batch_axis=1), 1, self.batch)

    def place_of(self, beat: int) -> str:
        """Name the array that has a beat of a window: :meth:`MemoryMap.place_of`."""
        return self.memory.place_of(beat, self.steps)

    def of_fewer_steps(self, steps: int) -> "NetworkMap":
        """Give the map for programs of fewer steps: they use the first steps of the same arrays."""
        fewer = copy(self)
        fewer.steps = steps
        return fewer

    @property
    def products(self) -> list[LayerArrays]:
        """All products of all layers."""
        return [product for layer in self.layers for product in layer.products]

    @property
    def entry(self) -> LayerArrays:
        """The product with what enters the network."""
        return next(product for product in self.layers[0].products if product.x)

    @property
    def x(self) -> Sequence:
        """What enters the network."""
        return next(product.x for product in self.layers[0].products if product.x)

    @property
    def dx(self) -> Sequence:
        """Its gradient."""
        return next(product.dx for product in self.layers[0].products if product.dx)

    def delta_log(self, layer: int, step: int) -> Log:
        """Tell where the streams of a compressed cell's δ go."""
        return self.stored.segment_of(layer, step).deltas[layer]

    def gates(self, layer: LayerArrays, step: int, batch_tile: int, span: Span) -> Location:
        """Where the gates of a span of units of a dense cell lie, [tile][gate][b]."""
        segment, batch = self.stored.segment_of(layer.number, step), self.batch
        before = batch_tile * layer.tiling.units.tiles * batch.size + span.first * batch.size_of(batch_tile)
        earlier = sum(product.gates_vectors for product in layer.earlier)
        vector = segment.gates(layer.number, step) + earlier + len(layer.stage.kept_gates) * before
        return Location(segment.region, vector, (layer.number, step, batch_tile))
