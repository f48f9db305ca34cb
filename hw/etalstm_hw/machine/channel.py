"""A channel: compute lanes under four engines, with a window of memory of their own."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import AXI4, join
from etalstm_hw.compute.compute import Compute
from etalstm_hw.compute.memory import BeatMemory
from etalstm_hw.compute.pe import OmniPE
from etalstm_hw.config import Config
from etalstm_hw.contract import (
    BINARY32,
    ENGINE_OF,
    HEADER,
    HEADER_BITS,
    INSTRUCTION_BITS,
    KIND_BITS,
    OPCODE_BITS,
    PARAMETER_MINUS_ZERO,
    PARAMETER_ONE,
    PARAMETER_ZERO,
    PARAMETERS,
    TARGET_BITS,
    Cycle,
    Engine,
    Opcode,
    Status,
    is_known,
)
from etalstm_hw.contract.distance import ROUND_TRIP
from etalstm_hw.dma.load import LoadEngine
from etalstm_hw.dma.store import StoreEngine
from etalstm_hw.elastic import Elastic
from etalstm_hw.fp.activation import Activation
from etalstm_hw.integer.broadcaster import sizes_of
from etalstm_hw.integer.compute import IntegerCompute
from etalstm_hw.integer.pe import IntegerPE
from etalstm_hw.integer.products import ProductEngine
from etalstm_hw.integer.sender import Digits
from etalstm_hw.program.queue import InstructionQueue
from etalstm_hw.stream import Completed, Dispatched, Group, Scalar, Slots, Windows, vector_layout

ENGINES = {Engine.LOAD: "load", Engine.MAC: "mac", Engine.VECTOR: "vector", Engine.STORE: "store"}
"""The engines of a channel, and their names."""

_RAW = data.StructLayout(HEADER | {"fields": INSTRUCTION_BITS - HEADER_BITS})
_WAITS = (Cycle.WAIT_LOAD, Cycle.HAZARD, Cycle.WAIT_VECTOR, Cycle.WAIT_STORE)


def make_products(config: Config, pe=IntegerPE) -> ProductEngine:
    """Make the engine of products of one stream of digits; `pe` makes a PE of integers."""
    return ProductEngine(
        config.lanes, config.integer_pes, depth=config.queue_depth // config.tile_sums,
        elements=sizes_of(config).elements, weight_depth=config.weight_depth // config.row_vectors, pe=pe,
    )  # fmt: skip


def make_weights(config: Config, reads: int) -> BeatMemory:
    """Make a memory of weights of integers for `reads` streams: one vector of each row."""
    vector = vector_layout(BINARY32, config.lanes)
    return BeatMemory(vector, config.beat_words, config.weight_depth // config.row_vectors, reads)


class Channel(wiring.Component):
    """Executes the instructions of its four engines, each engine's in order, all engines at once.

    :class:`Compute` says who may use the PEs and the memories when. Reset, from outside and before every program,
    clears everything but the lane memories. The first error of an engine stops it and shows in ``status`` until reset.
    ``drain`` stops all engines; memory accesses that are under way are finished.

    Parameters
    ----------
    config : Config
        Sizes of everything.
    pe, activation : callable
        Make a PE and an activation unit for a format.
    products, weights : callable
        If products are integers: make an engine of products and a memory of weights for a configuration; see
        :func:`make_products` and :func:`make_weights`.

    Members
    -------
    i : :py:`In(stream.Signature(Dispatched()))`
        Instructions for the four engines. Others are taken and reported.
    scalars : :py:`In(stream.Signature(Scalar(BINARY32)))`
        What the broadcaster sends; if products are integers :class:`~etalstm_hw.integer.sender.Digits`.
    parameters : :py:`In(data.ArrayLayout(BINARY32.width, PARAMETERS))`
        Values of ``Source.PARAMETER``; the first three are fixed and not looked at.
    slots : :py:`In(Slots())`
        Fixed slots of the PEs; constant while a program runs.
    group : :py:`In(Group(address_bits))`
        Which window is this channel's; constant while a program runs.
    windows : :py:`In(Windows(address_bits))`
        Where the channels' windows lie.
    axi : :py:`Out(AXI4(address_bits, beat_bits))`
        Memory port.
    rooms : :py:`Out(4)`
        The queues of load, mac, vector and store (bits 0 to 3) have room. Each takes ``distance.ROUND_TRIP`` more
        instructions after that.
    scalar_room : :py:`Out(streams)`
        Likewise for scalars, by stream. A sender who learns of it late, both ways, sees no gap.
    drain : :py:`In(1)`
        Start nothing new.
    stored_by_all : :py:`In(TARGET_BITS)`
        Instructions that the STORE engine of every channel has completed.
    completed : :py:`Out(Completed())`
        Instructions that the engines have completed since reset.
    store_done : :py:`Out(1)`
        A STORE or TRANSPOSE was completed.
    busy, dma_busy : :py:`Out(1)`
        Anything is left to do; memory accesses are under way.
    status, engine : :py:`Out(Status)`, :py:`Out(Engine)`
        ``IDLE``, or an error and who made it.
    cycle : :py:`Out(Cycle)`
        What the PEs did in the cycle before, or why nothing.
    mac_phase : :py:`Out(1)`
        A MAC instruction has MACs to issue.
    activations : :py:`Out(range(activation_units + 1))`
        Values that enter the activation units in this cycle.
    load_beats, load_kind, store_beats, store_kind : :py:`Out(1)`, :py:`Out(KIND_BITS)`
        A beat was transferred in this cycle, and what it was.
    progress : :py:`Out(1)`
        Something moved in the cycle before.
    """

    def __init__(
        self, config, *, pe=OmniPE.of, activation=Activation.sharing, products=make_products, weights=make_weights
    ):
        self.config = config
        self.pe, self.activation, self._products, self._weights = pe, activation, products, weights
        flags = ("store_done", "busy", "dma_busy", "mac_phase", "load_beats", "store_beats", "progress")
        super().__init__(
            {name: Out(1) for name in flags}
            | {
                "i": In(stream.Signature(Dispatched())),
                "scalars": In(stream.Signature(self._scalar)),
                "parameters": In(data.ArrayLayout(BINARY32.width, PARAMETERS)),
                "slots": In(Slots()),
                "group": In(Group(config.address_bits)),
                "windows": In(Windows(config.address_bits)),
                "axi": Out(AXI4(config.address_bits, config.beat_bits)),
                "rooms": Out(len(ENGINES)),
                "scalar_room": Out(config.integer_streams),
                "drain": In(1),
                "stored_by_all": In(TARGET_BITS),
                "completed": Out(Completed()),
                "status": Out(Status),
                "engine": Out(Engine),
                "cycle": Out(Cycle),
                "activations": Out(range(config.activation_units + 1)),
                "load_kind": Out(KIND_BITS),
                "store_kind": Out(KIND_BITS),
            }
        )

    def elaborate(self, platform):
        """Build the parts, then connect them: instructions, scalars, memory port, what the outside wants to know."""
        m = Module()
        config = self.config
        m.submodules.compute = compute = self._compute()
        transfer = (BINARY32, config.lanes, config.beat_words, config.address_bits)
        m.submodules.load = load = LoadEngine(
            *transfer, outstanding=config.outstanding_bursts, decompressor_words=config.codec_words
        )
        m.submodules.store = store = StoreEngine(*transfer, compressor_words=config.codec_words)
        queues = self._dispatch(m, {"load": load.i, "mac": compute.mac, "vector": compute.vector, "store": store.i})
        left = self._buffer_scalars(m, compute)
        self._connect_transfers(m, compute, load, store)
        loaded = load.done & (compute.load_status == Status.IDLE)
        self._count(m, {"load": loaded, "mac": compute.mac_done, "vector": compute.vector_done, "store": store.done})
        self._report(m, compute, load, store)
        self._classify(m, compute, queues, left | load.busy | store.busy)
        return m

    @property
    def _scalar(self):
        """Layout of what the broadcaster sends."""
        config = self.config
        return Digits(sizes_of(config).elements, config.integer_streams) if config.integers else Scalar(BINARY32)

    def _compute(self):
        """Make the compute part."""
        config = self.config
        depths = ("weight_depth", "bias_depth", "scratch_depth", "queue_depth")
        of_integers = {
            "integer_pes": config.integer_pes, "streams": config.integer_streams,
            "elements": sizes_of(config).elements, "engine": lambda: self._products(config),
            "weights": lambda reads: self._weights(config, reads),
        }  # fmt: skip
        make, more = (IntegerCompute, of_integers) if config.integers else (Compute, {})
        return make(
            BINARY32, config.lanes, config.beat_words, pe=self.pe, activation=self.activation,
            activation_units=config.activation_units, scratch_reads=config.scratch_reads,
            scratch_banks=config.scratch_banks, depths={name: getattr(config, name) for name in depths}, **more,
        )  # fmt: skip

    def _dispatch(self, m, engines):
        """Give each engine a queue, and each instruction to the queue of its engine."""
        opcode = self.i.p.word[:OPCODE_BITS]
        self._refused = refused = Signal()
        queues = {}
        for name, instructions in engines.items():
            raw = not isinstance(instructions.p, data.View)
            queue = InstructionQueue(_RAW if raw else instructions.p.shape(), self.config.instruction_queue, ROUND_TRIP)
            m.submodules[f"{name}_queue"] = queues[name] = queue
            m.d.comb += [
                queue.i.p.eq(self.i.p),
                queue.completed.eq(self.completed),
                queue.stored_by_all.eq(self.stored_by_all),
                queue.drain.eq(self.drain),
                Value.cast(instructions.p).eq(queue.o.p.as_value()),
                instructions.valid.eq(queue.o.valid),
                queue.o.ready.eq(instructions.ready),
            ]
        m.d.comb += self.rooms.eq(Cat(queue.room for queue in queues.values()))
        with m.Switch(opcode):
            for code, engine in ENGINE_OF.items():
                # Of LOAD_ROWS only LOADs come here.
                if engine in ENGINES and code != Opcode.LOAD_ROWS and is_known(code, self.config.integers):
                    queue = queues[ENGINES[engine]]
                    with m.Case(code):
                        m.d.comb += [queue.i.valid.eq(self.i.valid), self.i.ready.eq(queue.i.ready)]
            with m.Default():
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += refused.eq(refused | self.i.valid)
        return queues

    def _buffer_scalars(self, m, compute):
        """Keep scalars in front of the MAC engine; give whether there are any."""
        config = self.config
        # While the news of room and then scalars are on their way, the MAC engine takes one from here in every cycle.
        enough = config.scalar_fifo + ROUND_TRIP
        fifos, levels = [], []
        for n, name in enumerate(compute.streams):
            given, into = self.scalars.p, getattr(compute, name)
            scalar, there = (given[n].sent, given[n].valid) if config.integers else (given, 1)
            fifo = SyncFIFOBuffered(width=scalar.shape().size, depth=enough + ROUND_TRIP)
            m.submodules[name] = fifo
            level = fifo.level
            if not config.integers:  # the engine of MACs knows late whether it takes a scalar
                m.submodules.elastic = elastic = Elastic(scalar.shape())
                wiring.connect(m, elastic.o, into)
                level, into = fifo.level + elastic.full, elastic.i
            fifos.append(fifo)
            levels.append(level)
            m.d.comb += [
                fifo.w_data.eq(scalar),
                fifo.w_en.eq(self.scalars.valid & there),
                into.p.eq(fifo.r_data),
                into.valid.eq(fifo.r_rdy),
                fifo.r_en.eq(into.ready),
            ]
        m.d.comb += [
            self.scalars.ready.eq(Cat(fifo.w_rdy for fifo in fifos).all()),
            self.scalar_room.eq(Cat(level < enough for level in levels)),
            compute.parameters.eq(self.parameters),
            compute.parameters[PARAMETER_ONE].eq(BINARY32.one),
            compute.parameters[PARAMETER_ZERO].eq(0),
            compute.parameters[PARAMETER_MINUS_ZERO].eq(BINARY32.minus_zero),
            compute.drain.eq(self.drain),
            compute.slots.eq(self.slots),
        ]
        return Cat(level != 0 for level in levels).any()

    def _connect_transfers(self, m, compute, load, store):
        """Connect the engines that move vectors with the lanes and the memory port."""
        wiring.connect(m, load.write, compute.load)
        wiring.connect(m, store.read, compute.read)
        join(m, self.axi, load.axi, store.axi)
        m.d.comb += [
            store.vector.eq(compute.read_data),
            store.parameters.eq(compute.parameters),
            *(engine.group.eq(self.group) for engine in (load, store)),
            *(engine.windows.eq(self.windows) for engine in (load, store)),
            *(engine.drain.eq(self.drain) for engine in (load, store)),
            self.load_beats.eq(load.beats),
            self.load_kind.eq(load.kind),
            self.store_beats.eq(store.beats),
            self.store_kind.eq(store.kind),
            self.dma_busy.eq(load.busy | store.busy),
        ]

    def _count(self, m, done):
        """Count what is completed."""
        for name, pulse in done.items():
            m.d.sync += self.completed[name].eq(self.completed[name] + pulse)
        m.d.comb += self.store_done.eq(done["store"])

    def _report(self, m, compute, load, store):
        """Show an error; of several the last one here."""
        statuses = [
            (Engine.STORE, compute.read_status),
            (Engine.STORE, store.status),
            (Engine.LOAD, compute.load_status),
            (Engine.LOAD, load.status),
            (Engine.VECTOR, compute.vector_status),
            (Engine.MAC, compute.mac_status),
        ]
        with m.If(self._refused):
            m.d.comb += self.status.eq(Status.BAD_OPCODE)
        for engine, status in statuses:
            with m.If(status != Status.IDLE):
                m.d.comb += [self.status.eq(status), self.engine.eq(engine)]

    def _classify(self, m, compute, queues, transfers):
        """Say what kind of cycle this is, and whether there is anything left or something moves."""
        engines_busy = compute.mac_busy | compute.vector_busy | transfers
        m.d.comb += [
            self.busy.eq(engines_busy | Cat(queue.busy for queue in queues.values()).any()),
            self.mac_phase.eq(compute.mac_phase),
            self.activations.eq(compute.activations),
        ]
        m.d.sync += self.progress.eq(
            compute.progress
            | (self.i.valid & self.i.ready)
            | (self.scalars.valid & self.scalars.ready)
            | self.load_beats
            | self.store_beats
        )
        # What the PEs did is known late. So the choice is made a cycle later.
        did, waits, busy = Signal(Cycle, init=Cycle.NO_MAC), Signal(len(_WAITS)), Signal()
        m.d.sync += [did.eq(compute.cycle), waits.eq(queues["mac"].waits), busy.eq(self.busy)]
        m.d.comb += self.cycle.eq(did)
        with m.If(did == Cycle.NO_MAC):
            with m.If(~busy):
                m.d.comb += self.cycle.eq(Cycle.IDLE)
            for n, kind in reversed(list(enumerate(_WAITS))):
                with m.If(waits[n]):
                    m.d.comb += self.cycle.eq(kind)
