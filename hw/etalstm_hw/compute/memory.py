"""The memories of a channel's lanes."""

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.contract import LANE_ADDRESS_BITS, Memory
from etalstm_hw.stream import LaneWrite, vector_layout

UNASKED_BLOCK_RAM = 1024  # words; a deeper memory may become ultra RAM, of which the weights leave a board little
DEEPEST_BLOCK_RAM = 2048  # words; deeper memories go to ultra RAM, as a board's block RAM does not hold its weights


def ram_style(depth: int) -> dict[str, str]:
    """Give the attribute of a memory of so many words, so that the kind of its RAM is not left to the tool."""
    if depth <= UNASKED_BLOCK_RAM:
        return {}
    return {"ram_style": "ultra" if depth > DEEPEST_BLOCK_RAM else "block"}


class BeatMemory(wiring.Component):
    """A memory of vectors that is written beat by beat: a memory for each beat of a vector.

    Ultra RAM has enables of 8 or 9 bits. What is written in other pieces is not sure to become ultra RAM, so each piece
    is a memory with an enable of its own.

    Parameters
    ----------
    vector : ArrayLayout
        Of a vector.
    beat_words, depth : int
        Words of a beat, vectors of the memory.
    reads : int
        Read ports, 1 or 2. Two share the memory's two ports with the writes: in the cycle of a write one of them reads
        nothing and stays as it is, as ultra RAM has no other write mode. The other must not read what is written.

    Members
    -------
    READS : tuple of str
        Names of the read ports.
    read, second : :py:`Out(memory.ReadPort.Signature(...))`
        There is no ``second`` with one.
    write : :py:`Out(memory.WritePort.Signature(...))`
        With an enable for each beat.
    taken : :py:`In(2)`
        With two read ports: those whose port of the memory a write takes; ``read`` is bit 0. A write must take one.
    """

    READS = ("read", "second")

    def __init__(self, vector, beat_words: int, depth: int, reads: int = 1):
        self._reads = self.READS[:reads]
        self._depth, self._beat_bits = depth, vector.size // vector.length * beat_words
        port = {"addr_width": (depth - 1).bit_length(), "shape": vector}
        super().__init__(
            {
                **{name: Out(memory.ReadPort.Signature(**port)) for name in self._reads},
                "write": Out(memory.WritePort.Signature(**port, granularity=beat_words)),
                **({"taken": In(2)} if reads == 2 else {}),
            }
        )

    def elaborate(self, platform):
        """All pieces have the same addresses."""
        m = Module()
        attrs: dict = ram_style(self._depth)
        if len(self._reads) == 2:
            attrs["no_rw_check"] = 1  # else Yosys keeps a copy for each port: they differ in what they read of a write
        pieces: dict[str, list] = {name: [] for name in self._reads}
        for n, enable in enumerate(self.write.en):
            storage = memory.Memory(shape=self._beat_bits, depth=self._depth, init=[], attrs=attrs)
            m.submodules[f"beat{n}"] = storage
            if len(self._reads) == 1:
                self._write(m, storage.write_port(), n, enable, self.write.addr)
            for side, name in enumerate(self._reads):
                mine, read = getattr(self, name), storage.read_port()
                address, taken = mine.addr, Const(0)
                if len(self._reads) == 2:
                    taken = self.taken[side]
                    address = Mux(taken, self.write.addr, mine.addr)
                    self._write(m, storage.write_port(), n, enable & taken, address)
                m.d.comb += [read.addr.eq(address), read.en.eq(mine.en & ~taken)]
                pieces[name].append(read.data)
        m.d.comb += [getattr(self, name).data.eq(Cat(words)) for name, words in pieces.items()]
        return m

    def _write(self, m, port, beat, enable, address):
        """Write a beat by a port."""
        data = self.write.data.as_value().word_select(beat, self._beat_bits)
        m.d.comb += [port.addr.eq(address), port.data.eq(data), port.en.eq(enable)]


def read_port(vector, depth):
    """Signature of a memory's read port."""
    return memory.ReadPort.Signature(addr_width=(depth - 1).bit_length(), shape=vector)


def write_port(vector, depth, granularity):
    """Signature of a memory's write port."""
    return memory.WritePort.Signature(addr_width=(depth - 1).bit_length(), shape=vector, granularity=granularity)


def use(m, mine, port):
    """Let a read port of a memory do what is asked of one's own."""
    m.d.comb += [port.addr.eq(mine.addr), port.en.eq(mine.en), mine.data.eq(port.data)]


def scratch_ports(vector, depth, reads, banks):
    """Name the scratch memory's read ports, with their signatures: one for each copy, or for each bank."""
    return {f"scratch{n}": read_port(vector, depth // banks) for n in range(reads * banks)}


def scratch_writes(vector, depth, banks):
    """Name the scratch memory's write ports, with their signatures: one for each bank, with an enable for each lane."""
    return {f"written{n}": write_port(vector, depth // banks, 1) for n in range(banks)}


class ScratchMemory(wiring.Component):
    """The scratch words of all lanes: twice, if any two are read in a cycle; or once, in one or two banks.

    Of two banks, the even addresses lie in bank 0, and the odd ones in bank 1. An address inside a bank is half the
    address. Each bank is written by itself. Two banks take no more block RAM than one, unless a bank is too shallow.

    Parameters
    ----------
    vector : ArrayLayout
    depth, reads, banks : int
        Vectors; copies, 1 or 2; banks, 1 or with one copy 2.

    Members
    -------
    scratch0, scratch1 : :py:`Out(memory.ReadPort.Signature(...))`
        Read ports of the copies or banks.
    written0, written1 : :py:`Out(memory.WritePort.Signature(...))`
        Write ports of the banks, with an enable for each lane. Copies are written together.
    """

    def __init__(self, vector, depth, reads, banks):
        self._vector, self._depth, self._banks = vector, depth // banks, banks
        self._ports = scratch_ports(vector, depth, reads, banks)
        super().__init__({n: Out(port) for n, port in (self._ports | scratch_writes(vector, depth, banks)).items()})

    def elaborate(self, platform):
        """One memory for each read port."""
        m = Module()
        for n, name in enumerate(self._ports):
            storage = memory.Memory(shape=self._vector, depth=self._depth, init=[], attrs=ram_style(self._depth))
            m.submodules[name] = storage
            use(m, getattr(self, name), storage.read_port())
            port, mine = storage.write_port(granularity=1), getattr(self, f"written{n % self._banks}")
            m.d.comb += [port.addr.eq(mine.addr), port.data.eq(mine.data), port.en.eq(mine.en)]
        return m


class LaneMemories(wiring.Component):
    """Weights, biases, scratch words and partial sums of all lanes of a channel.

    Each memory has one wide word per address, the lanes side by side. A vector follows its address by one cycle and
    stays until the port is enabled again; a vector written in the cycle in which it is read is read as it was before.
    Nothing is reset.

    Parameters
    ----------
    format : FloatFormat
        Format of a word.
    lanes, beat_words : int
        Words of a vector, and of a beat of ``load``.
    weight_depth, bias_depth, scratch_depth, queue_depth : int
        Vectors of each memory, powers of two.
    scratch_reads, scratch_banks : int
        See :class:`ScratchMemory`.

    Members
    -------
    weights, bias, scratch0, scratch1, sums : :py:`Out(memory.ReadPort.Signature(...))`
        Read ports.
    written0, written1 : :py:`Out(memory.WritePort.Signature(...))`
        Write ports of the scratch memory, with an enable for each lane.
    new_sums : :py:`Out(memory.WritePort.Signature(...))`
        Write port of the partial sums.
    load : :py:`In(stream.Signature(LaneWrite(format, lanes, beat_words)))`
        Weights and biases. A write to another memory or beyond the end of one is taken and dropped.
    no_memory, no_address : :py:`Out(1)`
        A write of ``load`` was dropped in this cycle, because of what it names.
    """

    def __init__(
        self, format, lanes, beat_words, *, weight_depth, bias_depth, scratch_depth, queue_depth, scratch_reads,
        scratch_banks,
    ):  # fmt: skip
        self.beat_words = beat_words
        self.vector = vector = vector_layout(format, lanes)
        self.depths = {"weights": weight_depth, "bias": bias_depth, "sums": queue_depth}
        self._scratch = ScratchMemory(vector, scratch_depth, scratch_reads, scratch_banks)
        self._weights = BeatMemory(vector, beat_words, weight_depth)
        self._others = {
            name: memory.Memory(shape=vector, depth=depth, init=[], attrs=ram_style(depth))
            for name, depth in (("bias", bias_depth), ("sums", queue_depth))
        }
        super().__init__(
            dict(self._scratch.signature.members)
            | {name: Out(read_port(vector, self.depths[name])) for name in ("weights", "bias", "sums")}
            | {
                "new_sums": Out(write_port(vector, queue_depth, None)),
                "load": In(stream.Signature(LaneWrite(format, lanes, beat_words))),
                "no_memory": Out(1),
                "no_address": Out(1),
            }
        )

    def elaborate(self, platform):
        """Put the writers in front of each memory."""
        m = Module()
        load, request = self.load, self.load.p
        m.submodules.scratch, m.submodules.weights = self._scratch, self._weights
        for name in self._scratch.signature.members:
            connect(m, flipped(getattr(self, name)), getattr(self._scratch, name))
        use(m, self.weights, self._weights.read)
        for name, storage in self._others.items():
            m.submodules[name] = storage
            use(m, getattr(self, name), storage.read_port())

        m.d.comb += load.ready.eq(1)
        with m.If(load.valid & (request.memory != Memory.WEIGHTS) & (request.memory != Memory.BIAS)):
            m.d.comb += self.no_memory.eq(1)
        bias = self._others["bias"].write_port(granularity=self.beat_words)
        for name, number, port in (("weights", Memory.WEIGHTS, self._weights.write), ("bias", Memory.BIAS, bias)):
            depth = self.depths[name]
            refused = request.address >= depth if depth < 1 << LANE_ADDRESS_BITS else Const(0)
            m.d.comb += [port.addr.eq(request.address), port.data.eq(request.data)]
            with m.If(load.valid & (request.memory == number)):
                m.d.comb += self.no_address.eq(refused)
                with m.If(~refused):
                    m.d.comb += port.en.eq(request.enable)

        sums = self._others["sums"].write_port()
        m.d.comb += [sums.addr.eq(self.new_sums.addr), sums.data.eq(self.new_sums.data), sums.en.eq(self.new_sums.en)]
        return m
