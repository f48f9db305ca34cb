"""The whole machine: channels, broadcaster, sequencer, registers."""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, DomainRenamer, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm.hw import contract
from etalstm.hw.axi import AXI4, AXI4Lite, AXI4Read
from etalstm.hw.broadcast.broadcaster import Broadcaster
from etalstm.hw.channel import Channel
from etalstm.hw.config import Config
from etalstm.hw.contract import Counter, Cycle, Engine, Opcode, Status
from etalstm.hw.counters import Counters
from etalstm.hw.dma.merge import ReadMerge
from etalstm.hw.dma.reader import Reader
from etalstm.hw.dma.rows import RowLoads
from etalstm.hw.dma.share import PortShare
from etalstm.hw.dma.store import StoreEngine
from etalstm.hw.faults import Faults
from etalstm.hw.program.sequencer import Sequencer
from etalstm.hw.registers import REGISTER_ADDRESS_BITS, Registers
from etalstm.hw.rendezvous import Rendezvous


def top_signature(config: Config) -> wiring.Signature:
    """Give the members of :class:`Top`."""
    id_bits = (config.channels_per_port - 1).bit_length()
    shared = config.ports - 2
    sizes = (config.address_bits, config.beat_bits)
    return wiring.Signature(
        {
            "control": In(AXI4Lite(REGISTER_ADDRESS_BITS)),
            **{f"port{n}": Out(AXI4(*sizes, id_bits)) for n in range(shared)},
            **{f"port{n}": Out(AXI4Read(*sizes)) for n in range(shared, config.ports)},
            "interrupt": Out(1),
            "running": Out(1),
            "failed": Out(1),
        }
    )


class Top(wiring.Component):
    """An accelerator with one AXI4-Lite port for its registers and several AXI4 ports for its memory.

    Parameters
    ----------
    config : Config
    channel : callable
        Makes a channel of a configuration.
    build : int
        What the BUILD register reads as, 32 bits.

    Members
    -------
    control : :py:`In(AXI4Lite(...))`
        Registers, see :class:`contract.Register`.
    port0 … : :py:`Out(AXI4(...))`
        Memory ports: those of the channels first, then the broadcaster's and the sequencer's, which only read; the
        latter is that of the maps of LOAD_ROWS too.
    interrupt : :py:`Out(1)`
        The last program has ended; low from its start to its end, and before the first.
    running, failed : :py:`Out(1)`
        A program runs; the last program ended, but not with DONE.
    """

    def __init__(self, config: Config, *, channel=Channel, build: int = 0):
        self.config, self._channel, self._build = config, channel, build
        super().__init__(top_signature(config))

    def elaborate(self, platform):
        """Everything that a program uses is held in reset between programs; registers and counters are not."""
        m = Module()
        config = self.config
        m.submodules.registers = registers = Registers(config, build=self._build)
        m.submodules.sequencer = sequencer = Sequencer(beat_bits=config.beat_bits, address_bits=config.address_bits)
        m.submodules.counters = counters = Counters(config.channels)
        m.domains.program = ClockDomain(local=True)
        m.d.comb += [
            ClockSignal("program").eq(ClockSignal()),
            ResetSignal("program").eq(ResetSignal() | ~sequencer.active),
        ]
        of_program = DomainRenamer("program")
        channels = [self._channel(config) for _ in range(config.channels)]
        for n, channel in enumerate(channels):
            m.submodules[f"channel{n}"] = of_program(channel)
        broadcaster = Broadcaster(config)
        m.submodules.broadcaster = of_program(broadcaster)
        reader = Reader(config.address_bits, config.beat_bits, contract.ADDRESS_BITS, depth=32, outstanding=2)
        m.submodules.program = of_program(reader)
        rows = RowLoads(
            config.format,
            lanes=config.lanes,
            beat_words=config.beat_words,
            address_bits=config.address_bits,
            channels=config.channels,
        )
        m.submodules.rows = of_program(rows)
        # What a channel can hold: its queue, the instruction at the queue's output, what its engine has taken.
        stored = Rendezvous(config.channels, config.instruction_queue + 1 + StoreEngine.capacity())
        m.submodules.stored = of_program(stored)
        faults = Faults(config.channels)
        m.submodules.faults = of_program(faults)

        self._connect_ports(m, channels, broadcaster, (reader, rows), of_program)
        connect(m, flipped(self.control), registers.bus)
        m.d.comb += [
            sequencer.start.eq(registers.start),
            sequencer.abort.eq(registers.abort),
            sequencer.program.eq(registers.program),
            sequencer.length.eq(registers.length),
            sequencer.watchdog.eq(registers.watchdog),
            registers.running.eq(sequencer.running),
            registers.status.eq(sequencer.status),
            registers.engine.eq(sequencer.engine),
            registers.instruction.eq(sequencer.instruction),
            registers.counters.eq(counters.values),
            counters.clear.eq(registers.start),
            self.interrupt.eq(~sequencer.running & (sequencer.status != Status.IDLE)),
            self.running.eq(sequencer.running),
            self.failed.eq(self.interrupt & (sequencer.status != Status.DONE)),
        ]
        self._fetch(m, sequencer, reader)
        self._dispatch(m, sequencer, rows, channels, broadcaster)
        self._broadcast(m, channels, broadcaster)
        for number, channel in enumerate(channels):
            m.d.comb += [
                channel.number.eq(number),
                channel.parameters.eq(registers.parameters),
                channel.windows.eq(registers.windows),
                channel.shares.eq(registers.shares),
                channel.abort.eq(sequencer.drain),
                channel.stored_by_all.eq(stored.count),
            ]
        m.d.comb += [
            broadcaster.windows.eq(registers.windows),
            broadcaster.send_zeros.eq(registers.send_zeros),
            broadcaster.abort.eq(sequencer.drain),
            broadcaster.stored_by_all.eq(stored.count),
            rows.windows.eq(registers.windows),
            rows.abort.eq(sequencer.drain),
            rows.stored_by_all.eq(stored.count),
            stored.done.eq(Cat(channel.store_done for channel in channels)),
        ]
        self._watch(m, sequencer, channels, broadcaster, reader, rows, faults)
        self._count(m, counters, sequencer, channels, broadcaster, reader, rows)
        return m

    def _connect_ports(self, m, channels, broadcaster, readers, of_program):
        """Give each memory port to its channels; several share one by ID. The last is for the program and for maps."""
        config = self.config
        each, shared = config.channels_per_port, config.ports - 2
        for n in range(shared):
            port, users = getattr(self, f"port{n}"), channels[n * each : (n + 1) * each]
            if each == 1:
                connect(m, users[0].axi, flipped(port))
                continue
            share = PortShare(config.address_bits, config.beat_bits, each)
            m.submodules[f"share{n}"] = of_program(share)
            for k, user in enumerate(users):
                connect(m, user.axi, share.managers[k])
            connect(m, share.port, flipped(port))
        connect(m, broadcaster.axi, flipped(getattr(self, f"port{shared}")))
        merge = ReadMerge(config.address_bits, config.beat_bits)
        m.submodules.merge = of_program(merge)
        for n, reader in enumerate(readers):
            connect(m, reader.axi, merge.readers[n])
        connect(m, merge.port, flipped(getattr(self, f"port{shared + 1}")))

    def _fetch(self, m, sequencer, reader):
        connect(m, sequencer.command, reader.i)
        connect(m, reader.o, sequencer.data)
        m.d.comb += reader.abort.eq(sequencer.drain)

    def _dispatch(self, m, sequencer, rows, channels, broadcaster):
        """Give an instruction to the broadcaster, or to all channels in the same cycle."""
        connect(m, sequencer.o, rows.i)
        is_cast = rows.o.p.word[: contract.OPCODE_BITS] == Opcode.CAST
        all_ready = Cat(channel.i.ready for channel in channels).all()
        m.d.comb += [
            broadcaster.i.p.eq(rows.o.p),
            broadcaster.i.valid.eq(rows.o.valid & is_cast),
            rows.o.ready.eq(Mux(is_cast, broadcaster.i.ready, all_ready)),
        ]
        for channel in channels:
            m.d.comb += [
                channel.i.p.eq(rows.o.p),
                channel.i.valid.eq(rows.o.valid & ~is_cast & all_ready),
            ]

    def _broadcast(self, m, channels, broadcaster):
        """Give every scalar to all channels in the same cycle."""
        all_ready = Cat(channel.scalars.ready for channel in channels).all()
        m.d.comb += broadcaster.o.ready.eq(all_ready)
        for channel in channels:
            m.d.comb += [
                channel.scalars.p.eq(broadcaster.o.p),
                channel.scalars.valid.eq(broadcaster.o.valid & all_ready),
            ]

    def _watch(self, m, sequencer, channels, broadcaster, reader, rows, faults):
        """Tell the sequencer how its program fares; a channel's fault counts before the broadcaster's."""
        m.d.comb += [
            sequencer.refusal.eq(rows.status),
            sequencer.busy.eq(Cat(*(channel.busy for channel in channels), broadcaster.busy).any()),
            sequencer.draining.eq(
                Cat(*(channel.dma_busy for channel in channels), broadcaster.dma_busy, reader.busy, rows.busy).any()
            ),
            sequencer.progress.eq(
                Cat(*(channel.progress for channel in channels), broadcaster.progress, rows.beat).any()
            ),
        ]
        with m.If(broadcaster.status != Status.IDLE):
            m.d.comb += [
                sequencer.fault.eq(broadcaster.status),
                sequencer.fault_engine.eq(Engine.CAST),
                sequencer.fault_instruction.eq(broadcaster.completed),
            ]
        for channel, state in zip(channels, faults.channels, strict=True):
            m.d.comb += [state[name].eq(getattr(channel, name)) for name in ("status", "engine", "completed")]
        with m.If(faults.fault.status != Status.IDLE):
            m.d.comb += [
                sequencer.fault.eq(faults.fault.status),
                sequencer.fault_engine.eq(faults.fault.engine),
                sequencer.fault_instruction.eq(faults.fault.instruction),
            ]

    def _count(self, m, counters, sequencer, channels, broadcaster, reader, rows):
        """Sum what was done in the cycle before; registers outside the program's reset let its last cycle count."""

        def before(value):
            register = Signal.like(Value.cast(value), name="counted", reset_less=True)
            m.d.sync += register.eq(value)
            return register

        def total(bits):
            return sum((before(bit) for bit in bits), start=0)

        m.d.sync += counters.enable.eq(sequencer.running)
        counters_of = {Counter.CYCLES: 1}
        for kind in Cycle:
            counters_of[Counter.CYCLE_KINDS + kind] = total(channel.cycle == kind for channel in channels)
        counters_of[Counter.MAC_PHASE] = total(channel.mac_phase for channel in channels)
        counters_of[Counter.ACTIVATION] = total(channel.activations for channel in channels)
        counters_of[Counter.SCALARS_SEEN] = before(broadcaster.seen)
        counters_of[Counter.SCALARS_SKIPPED] = before(broadcaster.skipped)
        counters_of[Counter.ROWS_SEEN] = before(rows.seen)
        counters_of[Counter.ROWS_SKIPPED] = before(rows.skipped)
        for kind in contract.Traffic:
            loads = total(channel.load_beats & (channel.load_kind == kind) for channel in channels)
            loads += before(broadcaster.beat & (broadcaster.kind == kind))
            loads += before(rows.beat) if kind == contract.Traffic.DELTAS else 0
            counters_of[Counter.READ_BEATS + kind] = loads
            counters_of[Counter.WRITE_BEATS + kind] = total(
                channel.store_beats & (channel.store_kind == kind) for channel in channels
            )
        counters_of[Counter.PROGRAM_BEATS] = before(reader.o.valid & reader.o.ready)
        for number, amount in counters_of.items():
            m.d.comb += counters.amounts[number].eq(amount)
