"""The memories of a channel's lanes."""

from amaranth.hdl import Const, Module
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm.hw.contract import LANE_ADDRESS_BITS, Memory
from etalstm.hw.stream import LaneWrite, vector_layout


class LaneMemories(wiring.Component):
    """Weights, biases, scratch words and partial sums of all lanes of a channel.

    Each memory is one wide word per address, the lanes side by side. A vector follows its address by one cycle and
    stays until the port is enabled again; a vector written in the cycle in which it is read is read as it was before.
    Nothing is reset. The scratch memory may exist twice, which gives it two read ports. Results of element-wise work
    are always written; a write of ``load`` to the scratch memory waits for a cycle without one.

    Parameters
    ----------
    format : FloatFormat
        Format of a word.
    lanes : int
        Words of a vector.
    weight_depth, bias_depth, scratch_depth, queue_depth : int
        Vectors of each memory, powers of two.
    scratch_reads : int
        Read ports of the scratch memory, 1 or 2; with one there is no ``scratch_b``.

    Members
    -------
    weights, bias, scratch_a, scratch_b, queue : :py:`Out(memory.ReadPort.Signature(...))`
        Read ports.
    results : :py:`Out(memory.WritePort.Signature(...))`
        Element-wise results for the scratch memory, with an enable for each lane.
    sums : :py:`Out(memory.WritePort.Signature(...))`
        Partial sums for the queue.
    load : :py:`In(stream.Signature(LaneWrite(format, lanes)))`
        Words from outside. A write to the queue or beyond the end of a memory is taken and dropped.
    no_memory, no_address : :py:`Out(1)`
        A write of ``load`` was dropped in this cycle, because of what it names.
    """

    def __init__(self, format, lanes, *, weight_depth, bias_depth, scratch_depth, queue_depth, scratch_reads=2):
        self.vector = vector = vector_layout(format, lanes)
        depths = {"weights": weight_depth, "bias": bias_depth, "scratch_a": scratch_depth, "queue": queue_depth}
        self.depths = depths | ({"scratch_b": scratch_depth} if scratch_reads == 2 else {})
        self.memories = {name: memory.Memory(shape=vector, depth=depth, init=[]) for name, depth in self.depths.items()}

        def read_port(depth):
            return Out(memory.ReadPort.Signature(addr_width=(depth - 1).bit_length(), shape=vector))

        def write_port(depth, granularity):
            width = (depth - 1).bit_length()
            return Out(memory.WritePort.Signature(addr_width=width, shape=vector, granularity=granularity))

        super().__init__(
            {name: read_port(depth) for name, depth in self.depths.items()}
            | {
                "results": write_port(scratch_depth, 1),
                "sums": write_port(queue_depth, None),
                "load": In(stream.Signature(LaneWrite(format, lanes))),
                "no_memory": Out(1),
                "no_address": Out(1),
            }
        )

    def elaborate(self, platform):
        """Put the writers in front of each memory."""
        m = Module()
        load, request = self.load, self.load.p
        for name, storage in self.memories.items():
            m.submodules[name] = storage
            port, mine = storage.read_port(), getattr(self, name)
            m.d.comb += [port.addr.eq(mine.addr), port.en.eq(mine.en), mine.data.eq(port.data)]

        def load_into(names, number, busy):
            depth = self.depths[names[0]]
            refused = request.address >= depth if depth < 1 << LANE_ADDRESS_BITS else Const(0)
            ports = [self.memories[name].write_port(granularity=1) for name in names]
            with m.If(load.valid & (request.memory == number)):
                m.d.comb += [load.ready.eq(~busy), self.no_address.eq(refused)]
            for port in ports:
                chosen = load.valid & (request.memory == number) & ~refused & ~busy
                m.d.comb += port.addr.eq(request.address), port.data.eq(request.data)
                with m.If(chosen):
                    m.d.comb += port.en.eq(request.enable)
            return ports

        load_into(["weights"], Memory.WEIGHTS, Const(0))
        load_into(["bias"], Memory.BIAS, Const(0))
        scratches = [name for name in self.depths if name.startswith("scratch")]
        for port in load_into(scratches, Memory.SCRATCH, self.results.en.any()):
            with m.If(self.results.en.any()):
                m.d.comb += [
                    port.addr.eq(self.results.addr),
                    port.data.eq(self.results.data),
                    port.en.eq(self.results.en),
                ]
        with m.If(load.valid & (request.memory == Memory.QUEUE)):
            m.d.comb += [load.ready.eq(1), self.no_memory.eq(1)]

        sums = self.memories["queue"].write_port()
        m.d.comb += [sums.addr.eq(self.sums.addr), sums.data.eq(self.sums.data), sums.en.eq(self.sums.en)]
        return m
