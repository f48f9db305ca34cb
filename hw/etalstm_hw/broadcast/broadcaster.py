"""The broadcaster as one component: instructions in, scalars out, memory ports of its own."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw import contract
from etalstm_hw.axi.axi import AXI4Read
from etalstm_hw.axi.reader import Reader
from etalstm_hw.broadcast.blocks import BlockBuffer
from etalstm_hw.broadcast.emitter import ScalarEmitter
from etalstm_hw.broadcast.fetcher import BlockFetcher
from etalstm_hw.broadcast.masks import NonzeroMasks, PatchSizes
from etalstm_hw.config import Config
from etalstm_hw.contract import BINARY32, Opcode, Status
from etalstm_hw.program.queue import InstructionQueue
from etalstm_hw.stream import Dispatched, Group, Scalar, Windows, instruction_layout


class Reading(data.StructLayout):
    """What a port reads in a cycle: a ``beat``, and what ``kind`` it counts as."""

    def __init__(self):
        super().__init__({"beat": 1, "kind": contract.KIND_BITS})


class BlockBroadcaster(wiring.Component):
    """Executes instructions that send blocks: brings the blocks ahead. Subclasses send what is in them.

    Each port has a reader. Where there are several, instructions take turns.

    Parameters
    ----------
    config : Config
    opcode : Opcode
        Of the instructions.
    scalar : StructLayout
        What is sent.
    block_words, counted : int
        Words of a block at most, a power of two; what there is of a beat to be sent at most.

    Members
    -------
    i : :py:`In(stream.Signature(Dispatched()))`      instructions
    o : :py:`Out(stream.Signature(scalar))`           for all channels of a group at once
    axi : :py:`Out(AXI4Read(...)).array(ports)`       memory ports, ``config.broadcaster_ports``
    windows : :py:`In(Windows(...))`                  where the channels' windows are
    group : :py:`In(Group(...))`                      the group that is served
    rooms : :py:`In(streams)`                         the channels have room, by stream: it decides, not ``o.ready``
    send_zeros : :py:`In(1)`                          zeros are sent too, as scalars that are no terms
    stored_by_all : :py:`In(TARGET_BITS)`             what waits are compared with
    drain, dma_busy, busy, progress                   as in a channel
    status, completed : :py:`Out`                     first error, 1 cycle after it is known; how many instructions were
                                                      begun before it
    readings, seen, skipped : :py:`Out`               for the counters: what came in to be sent, and what of it is zero
    """

    def __init__(self, config: Config, opcode: Opcode, scalar, *, block_words: int, counted: int):
        self.config, self._layout, self._block_words = config, instruction_layout(opcode), block_words
        ports, counted = config.broadcaster_ports, config.broadcaster_ports * counted
        super().__init__(
            {
                "i": In(stream.Signature(Dispatched())),
                "o": Out(stream.Signature(scalar)),
                "axi": Out(AXI4Read(config.address_bits, config.beat_bits)).array(ports),
                "windows": In(Windows(config.address_bits)),
                "group": In(Group(config.address_bits)),
                "rooms": In(config.integer_streams),
                "send_zeros": In(1),
                "stored_by_all": In(contract.TARGET_BITS),
                "drain": In(1),
                "dma_busy": Out(1),
                "busy": Out(1),
                "progress": Out(1),
                "status": Out(Status),
                "completed": Out(contract.COMPLETED_BITS),
                "readings": Out(data.ArrayLayout(Reading(), ports)),
                "seen": Out(range(counted + 1)),
                "skipped": Out(range(counted + 1)),
            }
        )

    def elaborate(self, platform):
        """Queue, for each port a fetcher and a reader, and what sends."""
        m = Module()
        config = self.config
        m.submodules.queue = queue = InstructionQueue(self._layout, config.instruction_queue)
        both = [self._port(m, number) for number in range(config.broadcaster_ports)]
        fetchers, readers = zip(*both, strict=True)
        m.d.comb += [
            queue.i.p.eq(self.i.p),
            queue.i.p.waits.everyone.eq(1),
            queue.i.valid.eq(self.i.valid),
            self.i.ready.eq(queue.i.ready),
            queue.stored_by_all.eq(self.stored_by_all),
            queue.drain.eq(self.drain | Cat(fetcher.status != Status.IDLE for fetcher in fetchers).any()),
            self.dma_busy.eq(Cat(reader.busy for reader in readers).any()),
        ]
        # The middle of the machine chooses among the faults of all its parts, so this one comes from registers.
        self._fault, self._place = Signal(Status), Signal(contract.COMPLETED_BITS)
        m.d.sync += [self.status.eq(self._fault), self.completed.eq(self._place)]
        self._tell_fault(m, fetchers)
        sending = self._send(m, queue, fetchers)
        m.d.comb += self.busy.eq(Cat(unit.busy for unit in (queue, *fetchers, *readers)).any() | sending)
        moves = Cat(reading.beat for reading in self.readings).any() | Cat(f.write_enable for f in fetchers).any()
        m.d.sync += self.progress.eq(moves | (self.o.valid & self.o.ready))
        return m

    def _port(self, m, number):
        """Make a port's fetcher and reader."""
        config = self.config
        fetcher = BlockFetcher(
            BINARY32,
            beat_words=config.beat_words,
            vector_beats=config.vector_beats,
            words=self._block_words,
            address_bits=config.address_bits,
            streams="compressed" in self._layout.members,
        )
        reader = Reader(
            config.address_bits, config.beat_bits, contract.ADDRESS_BITS, outstanding=config.outstanding_bursts
        )
        m.submodules[f"fetcher{number}"], m.submodules[f"reader{number}"] = fetcher, reader
        connect(m, fetcher.command, reader.i)
        connect(m, reader.o, fetcher.data)
        connect(m, reader.axi, flipped(self.axi[number]))
        m.d.comb += [
            reader.drain.eq(self.drain | (fetcher.status != Status.IDLE)),
            fetcher.drain.eq(self.drain),
            fetcher.windows.eq(self.windows),
            fetcher.group.eq(self.group),
            self.readings[number].beat.eq(reader.o.valid & reader.o.ready),
            self.readings[number].kind.eq(fetcher.kind),
        ]
        return fetcher, reader

    def _tell_fault(self, m, fetchers):
        """Tell the first fault: one that no other fetcher, with an instruction before it, can have any more."""
        ports = len(fetchers)
        places = [Signal(contract.COMPLETED_BITS, name=f"place{n}") for n in range(ports)]  # of what was begun last
        m.d.comb += [
            place.eq((f.begun - 1) * ports + n) for n, (f, place) in enumerate(zip(fetchers, places, strict=True))
        ]
        for n, (fetcher, place) in enumerate(zip(fetchers, places, strict=True)):
            others = [(other, places[k]) for k, other in enumerate(fetchers) if k != n]
            earlier = [
                ((other.begun == 0) | (of_other < place)) & (other.busy | (other.status != Status.IDLE))
                for other, of_other in others
            ]
            with m.If((fetcher.status != Status.IDLE) & ~Cat(earlier).any()):
                m.d.comb += [self._fault.eq(fetcher.status), self._place.eq(place)]

    def _send(self, m, queue, fetchers):
        """Give the queue's instructions to fetchers, and send their blocks; give whether anything is left to send."""
        raise NotImplementedError


class Broadcaster(BlockBroadcaster):
    """Executes CAST instructions in order: reads blocks ahead, sends their nonzero scalars, one a cycle at most."""

    def __init__(self, config: Config):
        sizes = {"block_words": config.broadcast_words, "counted": config.beat_words}
        super().__init__(config, Opcode.CAST, Scalar(BINARY32), **sizes)

    def _send(self, m, queue, fetchers):
        """Buffer and masks, emitter."""
        config, (fetcher,) = self.config, fetchers
        m.submodules.buffer = buffer = BlockBuffer(
            beat_bits=config.beat_bits, words=config.broadcast_words, beat_words=config.beat_words
        )
        m.submodules.masks = masks = NonzeroMasks(
            BINARY32, PatchSizes(config.lanes, config.beat_words, config.broadcast_words)
        )
        m.submodules.emitter = emitter = ScalarEmitter(
            BINARY32, lanes=config.lanes, beat_words=config.beat_words, words=config.broadcast_words
        )
        connect(m, queue.o, fetcher.i)
        connect(m, fetcher.o, emitter.i)
        connect(m, emitter.masks, masks.read)
        connect(m, emitter.o, flipped(self.o))
        m.d.comb += [
            fetcher.release.eq(emitter.release),
            buffer.write_address.eq(fetcher.write_address),
            buffer.write_data.eq(fetcher.write_data),
            buffer.write_enable.eq(fetcher.write_enable),
            buffer.read_address.eq(emitter.read_address),
            buffer.read_enable.eq(emitter.read_enable),
            emitter.read_data.eq(buffer.read_data),
            masks.block.eq(fetcher.block),
            masks.send_zeros.eq(self.send_zeros),
            masks.write_data.eq(fetcher.write_data),
            masks.write_enable.eq(fetcher.write_enable),
            self.seen.eq(masks.seen),
            self.skipped.eq(masks.skipped),
        ]
        return emitter.busy
