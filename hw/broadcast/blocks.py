"""Executes CAST instructions up to the block: addresses, window check, and the block's way into a buffer."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from etalstm.hw import contract
from etalstm.hw.contract import Opcode, Status
from etalstm.hw.stream import Windows, instruction_layout

MOST_GATES = 4


class BlockLayout(data.StructLayout):
    """A block that lies in a buffer, and what is to be sent of it.

    Members
    -------
    bank : which buffer
    lane, lanes : first lane that is sent, and how many
    gates, batch, tiles, batch_outer : as in the CAST instruction
    outer : outer offset of its first words
    sums : inner indices that it has
    start : sums start anew with this block
    finish : sums that got no scalar are set to their start after this block
    last : the instruction's last block

    Parameters
    ----------
    words : int
        Size of a buffer in words.
    """

    def __init__(self, words: int):
        cast = {name: width for name, (_, width) in contract.layout(Opcode.CAST).items()}
        super().__init__(
            {
                "bank": 1,
                **{name: cast[name] for name in ("lane", "lanes", "gates", "batch", "tiles", "batch_outer")},
                "outer": contract.LANE_ADDRESS_BITS,
                "sums": range(words + 1),
                "start": 1,
                "finish": 1,
                "last": 1,
            }
        )


class BlockFetcher(wiring.Component):
    """Turns CAST instructions into blocks that lie in one of two buffers.

    Each block is one read command; the next block's command goes out while the emitter still sends the one before. A
    beat a cycle goes into the buffer. A buffer is filled again only after ``release``.

    Parameters
    ----------
    beat_words, vector_beats, width : int
        Words of a beat, beats of a vector, bits of a word.
    words : int
        Size of one buffer in words.
    address_bits : int
        Bits of a byte address.
    channels : int
        How many channels have windows.

    Members
    -------
    i : :py:`In(stream)`                 CAST instructions whose waits are over
    command : :py:`Out(stream)`          byte address and beats, to the reader
    data : :py:`In(stream)`              beats from the reader
    o : :py:`Out(stream)`                blocks (:class:`BlockLayout`) that lie in a buffer
    release : :py:`In(1)`                the oldest block has been sent
    write : :py:`Out`                    address, data and enable of the buffers' write port
    windows : :py:`In`                   where the channels' windows are
    block                                the block that is being written
    status : :py:`Out(Status)`           ``BAD_ADDRESS``; ``BAD_FIELD`` for a block that is larger than a buffer, has
                                         more than four gates, or sends lanes that a vector does not have; until reset
    busy : :py:`Out(1)`                  an instruction or a read is under way
    """

    def __init__(self, *, beat_words, vector_beats, width, words, address_bits, channels):
        self._beat_bytes = beat_words * width // 8
        self._vector_beats = vector_beats
        self._channels = channels
        self._lanes = beat_words * vector_beats
        self._words, self._rows = words, words // beat_words
        super().__init__(
            {
                "i": In(stream.Signature(instruction_layout(Opcode.CAST))),
                "command": Out(
                    stream.Signature(data.StructLayout({"address": address_bits, "beats": contract.ADDRESS_BITS}))
                ),
                "data": In(stream.Signature(data.StructLayout({"data": beat_words * width, "last": 1}))),
                "o": Out(stream.Signature(BlockLayout(words))),
                "release": In(1),
                "write_address": Out(range(2 * self._rows)),
                "write_data": Out(beat_words * width),
                "write_enable": Out(1),
                "block": Out(BlockLayout(words)),
                "windows": In(Windows(address_bits)),
                "status": Out(Status),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Control: one FSM asks for blocks, a second part files the beats that come back."""
        m = Module()
        cast = Signal(instruction_layout(Opcode.CAST))
        remaining = Signal(contract.COUNT_BITS)
        channel, tile = Signal(8), Signal(8)
        fresh, lanes, rows = Signal(), Signal(6), Signal(range(MOST_GATES * self._lanes + 1))
        outer = Signal(contract.LANE_ADDRESS_BITS)
        block_beats = Signal(contract.ADDRESS_BITS)
        offset, end = Signal(contract.ADDRESS_BITS + 1), Signal(contract.ADDRESS_BITS + 1)
        window = Signal(self.windows.base.shape())
        shift = (self._beat_bytes - 1).bit_length()

        fill, filling, free = Signal(), Signal(), Signal(2, init=2)
        m.d.comb += self.busy.eq(1)
        asked = Signal(BlockLayout(self._words))
        last_tile = tile == cast.tiles_per_channel - 1
        last_block = remaining == 1

        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += [self.i.ready.eq(1), self.busy.eq(self.i.valid | filling | (free != 2))]
                with m.If(self.i.valid):
                    m.d.sync += [
                        cast.eq(self.i.payload),
                        remaining.eq(self.i.payload.blocks),
                        channel.eq(self.i.payload.channel),
                        tile.eq(self.i.payload.tile),
                        fresh.eq(1),
                        outer.eq(0),
                        block_beats.eq(self.i.payload.gates * self.i.payload.batch * self._vector_beats),
                    ]
                    m.next = "LOCATE"
            with m.State("LOCATE"):  # the products get a cycle of their own
                m.d.sync += [
                    offset.eq(cast.address + tile * block_beats),
                    window.eq(self.windows.base + channel * self.windows.stride),
                    lanes.eq(Mux(last_tile, cast.last_lanes, cast.lanes)),
                    rows.eq(cast.gates * Mux(last_tile, cast.last_lanes, cast.lanes)),
                ]
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += end.eq(offset + block_beats)
                beyond = (cast.gates > MOST_GATES) | (cast.lane + lanes > self._lanes)
                with m.If((block_beats > self._rows) | beyond):
                    m.d.sync += self.status.eq(Status.BAD_FIELD)
                    m.next = "STOPPED"
                with m.Elif((channel >= self._channels) | (end > self.windows.stride >> shift)):
                    m.d.sync += self.status.eq(Status.BAD_ADDRESS)
                    m.next = "STOPPED"
                with m.Else():
                    m.d.comb += self.command.valid.eq(~filling & (free != 0))
                with m.If(self.command.valid & self.command.ready):
                    m.d.sync += [
                        asked.bank.eq(fill),
                        asked.lane.eq(cast.lane),
                        asked.lanes.eq(lanes),
                        asked.gates.eq(cast.gates),
                        asked.batch.eq(cast.batch),
                        asked.tiles.eq(cast.tiles),
                        asked.batch_outer.eq(cast.batch_outer),
                        asked.outer.eq(outer),
                        asked.sums.eq(Mux(cast.batch_outer, rows, cast.batch)),
                        asked.start.eq(cast.start & fresh),
                        asked.finish.eq(cast.finish & last_block),
                        asked.last.eq(last_block),
                        filling.eq(1),
                        fresh.eq(0),
                        outer.eq(outer + Mux(cast.batch_outer, cast.batch, rows) * cast.tiles),
                        remaining.eq(remaining - 1),
                        tile.eq(Mux(last_tile, 0, tile + 1)),
                        channel.eq(channel + last_tile),
                    ]
                    m.next = "LOCATE"
                    with m.If(last_block):
                        m.next = "TAKE"
            with m.State("STOPPED"):
                pass
        m.d.comb += [
            self.command.payload.address.eq(window + (offset << shift)),
            self.command.payload.beats.eq(block_beats),
        ]

        row = Signal(range(self._rows))
        full = Signal()  # all beats of `asked` are in, it could not be handed over with the last of them
        handed = self.o.valid & self.o.ready
        m.d.comb += [
            self.data.ready.eq(filling & ~full),
            self.write_enable.eq(self.data.valid & self.data.ready),
            self.write_address.eq(Cat(row, fill)),
            self.write_data.eq(self.data.payload.data),
            self.o.valid.eq(full | (self.write_enable & self.data.payload.last)),
            self.block.eq(asked),
            self.o.payload.eq(asked),
        ]
        with m.If(self.write_enable):
            m.d.sync += row.eq(row + 1)
            with m.If(self.data.payload.last):
                m.d.sync += [row.eq(0), full.eq(1)]
        with m.If(handed):
            m.d.sync += [full.eq(0), filling.eq(0), fill.eq(~fill)]
        m.d.sync += free.eq(free + self.release - handed)
        return m


class BlockBuffer(wiring.Component):
    """Two banks of beats with one write and one read port, read latency one cycle.

    The read data keep their value while ``read_enable`` is low.
    """

    def __init__(self, *, beat_bits, words, beat_words):
        self._depth = 2 * words // beat_words
        self._beat_bits = beat_bits
        super().__init__(
            {
                "write_address": In(range(self._depth)),
                "write_data": In(beat_bits),
                "write_enable": In(1),
                "read_address": In(range(self._depth)),
                "read_enable": In(1),
                "read_data": Out(beat_bits),
            }
        )

    def elaborate(self, platform):
        """One memory."""
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._beat_bits, depth=self._depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            write.en.eq(self.write_enable),
            read.addr.eq(self.read_address),
            read.en.eq(self.read_enable),
            self.read_data.eq(read.data),
        ]
        return m
