"""The whole machine: channels, broadcasters, sequencer, registers."""

from functools import reduce
from operator import and_
from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, DomainRenamer, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw import contract
from etalstm_hw.axi.arbiter import PortArbiter
from etalstm_hw.axi.axi import AXI4, AXI4Lite, AXI4Read
from etalstm_hw.axi.merge import ReadMerge
from etalstm_hw.axi.reader import Reader
from etalstm_hw.broadcast.broadcaster import Broadcaster
from etalstm_hw.config import Config
from etalstm_hw.contract import BINARY32, ENGINE_OF, Counter, Cycle, Engine, Status
from etalstm_hw.contract.distance import ROUND_TRIP, SETTLING, STAGES
from etalstm_hw.dma.store import StoreEngine
from etalstm_hw.integer.broadcaster import IntegerBroadcaster
from etalstm_hw.machine.barrier import StoreBarrier
from etalstm_hw.machine.branch import Branch
from etalstm_hw.machine.channel import ENGINES, Channel
from etalstm_hw.machine.counters import Counters
from etalstm_hw.machine.faults import Fault
from etalstm_hw.machine.groups import Groups, branches, feeders
from etalstm_hw.machine.registers import REGISTER_ADDRESS_BITS, Registers
from etalstm_hw.machine.tree import delayed, lingering
from etalstm_hw.program.rows import RowLoads
from etalstm_hw.program.sequencer import Sequencer


def top_signature(config: Config) -> wiring.Signature:
    """Give the members of :class:`Top`."""
    id_bits = (config.channels_per_port - 1).bit_length()
    shared = config.channel_ports
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


def make_broadcaster(config: Config):
    """Make a broadcaster, of scalars or of the digits of integers."""
    return (IntegerBroadcaster if config.integers else Broadcaster)(config)


class Top(wiring.Component):
    """An accelerator with one AXI4-Lite port for its registers and several AXI4 ports for its memory.

    Parameters
    ----------
    config : Config
    channel, broadcaster : callable
        Make a channel, or a broadcaster, of a configuration; see :func:`make_broadcaster`.
    build : int
        What the BUILD register reads as, 32 bits.

    Members
    -------
    control : :py:`In(AXI4Lite(...))`
        Registers, see :class:`contract.Register`.
    port0 … : :py:`Out(AXI4(...))`
        Memory ports: those of the channels first, then the broadcasters' and the sequencer's, which only read; the
        latter is that of the maps of LOAD_ROWS too.
    interrupt : :py:`Out(1)`
        The last program has ended; low from its start to its end, and before the first.
    running, failed : :py:`Out(1)`
        A program runs; the last program ended, but not with DONE.
    """

    def __init__(self, config: Config, *, channel=Channel, broadcaster=make_broadcaster, build: int = 0):
        self.config, self._channel, self._broadcaster, self._build = config, channel, broadcaster, build
        super().__init__(top_signature(config))

    def elaborate(self, platform):
        """Everything that a program uses is kept in reset between programs; registers and counters are not."""
        m = Module()
        config = self.config
        m.submodules.registers = registers = Registers(config, build=self._build)
        m.submodules.sequencer = sequencer = Sequencer(
            beat_bits=config.beat_bits, address_bits=config.address_bits, integers=config.integers
        )
        m.submodules.counters = counters = Counters(config.channels)
        m.submodules.groups = groups = Groups(config)
        of_program, reset = self._program_domain(m, sequencer)
        tree = self._make_branches(m)
        broadcasters = [self._broadcaster(config) for _ in range(config.broadcasters)]
        for n, broadcaster in enumerate(broadcasters):
            m.submodules[f"broadcaster{n}"] = of_program(broadcaster)
        reader = Reader(config.address_bits, config.beat_bits, contract.ADDRESS_BITS, depth=32, outstanding=2)
        m.submodules.program = of_program(reader)
        rows = RowLoads(BINARY32, lanes=config.lanes, beat_words=config.beat_words, address_bits=config.address_bits)
        m.submodules.rows = of_program(rows)
        # What a channel can store: its queue, the instruction at the queue's output, what its engine has taken.
        queued = config.instruction_queue + ROUND_TRIP + 1
        stored = StoreBarrier(config.channels, queued + StoreEngine.capacity())
        m.submodules.stored = of_program(stored)

        self._connect_ports(m, tree, broadcasters, (reader, rows), of_program)
        connect(m, flipped(self.control), registers.bus)
        # What the tree still carries when a program has ended is not to be seen by the next one.
        running = lingering(m, sequencer.running, SETTLING, name="settling")
        m.d.comb += [
            sequencer.start.eq(registers.start),
            sequencer.abort.eq(registers.abort),
            sequencer.program.eq(registers.program),
            sequencer.length.eq(registers.length),
            sequencer.watchdog.eq(registers.watchdog),
            registers.running.eq(running),
            registers.status.eq(sequencer.status),
            registers.engine.eq(sequencer.engine),
            registers.instruction.eq(sequencer.instruction),
            registers.counters.eq(counters.values),
            counters.clear.eq(registers.start),
            groups.count.eq(registers.groups),
            groups.stride.eq(registers.windows.stride),
            self.interrupt.eq(~running & (sequencer.status != Status.IDLE)),
            self.running.eq(running),
            self.failed.eq(self.interrupt & (sequencer.status != Status.DONE)),
        ]
        # As the channels do, a broadcaster hears of the drain late: see `_watch`.
        drains = [delayed(m, sequencer.drain, 1, name=f"drain{n}") for n in range(len(broadcasters))]
        groups_read = [groups.branches[0], *groups.broadcasters]
        for reading, group, drain in zip((rows, *broadcasters), groups_read, (sequencer.drain, *drains), strict=True):
            m.d.comb += [
                reading.windows.eq(registers.windows),
                reading.group.eq(group),
                reading.drain.eq(drain),
                reading.stored_by_all.eq(stored.count),
            ]
        m.d.comb += [broadcaster.send_zeros.eq(registers.send_zeros) for broadcaster in broadcasters]
        m.d.comb += stored.done.eq(Cat(branch.report.stored for branch in tree))
        for branch, group in zip(tree, groups.branches, strict=True):
            m.d.comb += [
                branch.orders.reset.eq(reset),
                branch.orders.drain.eq(sequencer.drain),
                branch.payload.stored_by_all.eq(stored.count),
                branch.settings.group.eq(group),
                *(branch.settings[name].eq(getattr(registers, name)) for name in ("windows", "parameters", "slots")),
            ]
        self._fetch(m, sequencer, reader)
        posted = self._dispatch(m, sequencer, rows, tree, broadcasters, groups)
        self._broadcast(m, tree, broadcasters, groups)
        self._watch(m, sequencer, tree, broadcasters, reader, rows, groups, posted)
        self._count(m, counters, sequencer, tree, broadcasters, reader, rows)
        return m

    def _program_domain(self, m, sequencer):
        """Make the domain of what a program uses in the middle of the machine; give its renamer and its reset."""
        m.domains.program = ClockDomain(local=True)
        reset = Signal(init=1)
        m.d.sync += reset.eq(~sequencer.active)
        m.d.comb += [ClockSignal("program").eq(ClockSignal()), ResetSignal("program").eq(reset)]
        return DomainRenamer("program"), reset

    def _make_branches(self, m):
        """Make the branches of the tree with their channels."""
        tree = [Branch(self.config, len(run), channel=self._channel) for run in branches(self.config)]
        for n, branch in enumerate(tree):
            m.submodules[f"branch{n}"] = branch
        return tree

    def _connect_ports(self, m, tree, broadcasters, readers, of_program):
        """Give each memory port to its channels; several use one by ID. The last is for the program and for maps."""
        config = self.config
        each, shared = config.channels_per_port, config.channel_ports
        channels = [axi for branch in tree for axi in branch.axi]
        for n in range(shared):
            port, users = getattr(self, f"port{n}"), channels[n * each : (n + 1) * each]
            if each == 1:
                connect(m, users[0], flipped(port))
                continue
            arbiter = PortArbiter(config.address_bits, config.beat_bits, each, outstanding=config.outstanding_bursts)
            m.submodules[f"arbiter{n}"] = of_program(arbiter)
            for k, user in enumerate(users):
                connect(m, user, arbiter.managers[k])
            connect(m, arbiter.port, flipped(port))
        of_broadcasters = [axi for broadcaster in broadcasters for axi in broadcaster.axi]
        for n, axi in enumerate(of_broadcasters, shared):
            connect(m, axi, flipped(getattr(self, f"port{n}")))
        merge = ReadMerge(config.address_bits, config.beat_bits, outstanding=config.outstanding_bursts)
        m.submodules.merge = of_program(merge)
        for n, reader in enumerate(readers):
            connect(m, reader.axi, merge.readers[n])
        connect(m, merge.port, flipped(getattr(self, f"port{config.ports - 1}")))

    def _fetch(self, m, sequencer, reader):
        connect(m, sequencer.command, reader.i)
        connect(m, reader.o, sequencer.data)
        m.d.comb += reader.drain.eq(sequencer.drain)

    def _dispatch(self, m, sequencer, rows, tree, broadcasters, groups):
        """Give an instruction to all broadcasters that have a group, or to all channels; tell when."""
        connect(m, sequencer.o, rows.i)
        # LOAD_ROWS and the LOADs that are made of it are for the same engine. So the opcode before `rows` decides.
        opcode, ready, posted = sequencer.o.p.word[: contract.OPCODE_BITS], Signal(), Signal()
        is_cast = opcode.matches(*(code for code, engine in ENGINE_OF.items() if engine == Engine.CAST))
        rooms = Signal(len(ENGINES))
        m.d.program += rooms.eq(Cat(Cat(b.report.rooms[n] for b in tree).all() for n in range(len(ENGINES))))
        with m.Switch(opcode):
            for code, engine in ENGINE_OF.items():
                with m.Case(code):
                    if engine == Engine.CAST:
                        idle = ~groups.active
                        m.d.comb += ready.eq((Cat(b.i.ready for b in broadcasters) | idle).all())
                    else:
                        m.d.comb += ready.eq(rooms[list(ENGINES).index(engine)])
        m.d.comb += [rows.o.ready.eq(ready), posted.eq(rows.o.valid & ready)]
        for n, broadcaster in enumerate(broadcasters):
            m.d.comb += [
                broadcaster.i.p.eq(rows.o.p),
                broadcaster.i.valid.eq(posted & is_cast & groups.active[n]),
            ]
        for branch in tree:
            m.d.comb += [branch.payload.instruction.eq(rows.o.p), branch.orders.instruction.eq(posted & ~is_cast)]
        return posted

    def _broadcast(self, m, tree, broadcasters, groups):
        """Give every scalar of a broadcaster to all channels of its group."""
        for n, broadcaster in enumerate(broadcasters):
            served = [group.number == n for group in groups.branches]
            streams = self.config.integer_streams
            rooms = [
                branch.report.scalar_room | (~own).replicate(streams) for branch, own in zip(tree, served, strict=True)
            ]
            room = Signal(streams, name=f"room{n}")
            m.d.program += room.eq(reduce(and_, rooms))
            m.d.comb += [broadcaster.rooms.eq(room), broadcaster.o.ready.eq(room.any())]
        for branch, group, run in zip(tree, groups.branches, branches(self.config), strict=True):
            with m.Switch(group.number):
                for n in feeders(self.config, run.start):
                    with m.Case(n):
                        scalars = broadcasters[n].o
                        m.d.comb += branch.payload.scalar.eq(scalars.p)
                        m.d.comb += branch.orders.scalar.eq(scalars.valid & scalars.ready)

    def _watch(self, m, sequencer, tree, broadcasters, reader, rows, groups, posted):
        """Tell the sequencer how its program fares; a channel's fault counts before a broadcaster's.

        What a channel tells is late. So the machine is busy while an instruction is on its way to the channels, and it
        drains for as long as they may not have heard of it.
        """
        heard = ~lingering(m, ~sequencer.drain, ROUND_TRIP, name="unheard")
        reports = [branch.report for branch in tree]
        # Whether a broadcaster is busy is known late in a cycle. Who gets its last scalar tells later still.
        sending = [delayed(m, broadcaster.busy, 1, name=f"sending{n}") for n, broadcaster in enumerate(broadcasters)]
        m.d.comb += [
            sequencer.refusal.eq(Mux(groups.valid, rows.status, Status.BAD_FIELD)),
            sequencer.busy.eq(
                Cat(*(report.busy for report in reports), *sending).any()
                | lingering(m, posted, ROUND_TRIP, name="underway")
            ),
            sequencer.dma_busy.eq(
                Cat(unit.dma_busy for unit in (*reports, *broadcasters)).any() | reader.busy | rows.busy | ~heard
            ),
            sequencer.progress.eq(Cat(*(unit.progress for unit in (*reports, *broadcasters)), rows.beat).any()),
        ]
        # Which broadcaster's fault is the first is known late, so it is told a cycle later.
        # Before a program is DONE, the sequencer waits longer than that.
        fault = Signal(Fault(), init={"engine": Engine.CAST})
        for broadcaster in reversed(broadcasters):
            with m.If(broadcaster.status != Status.IDLE):
                m.d.program += [fault.status.eq(broadcaster.status), fault.instruction.eq(broadcaster.completed)]
        self._blame(m, sequencer, fault)
        for branch in reversed(tree):
            self._blame(m, sequencer, branch.fault)

    def _blame(self, m, sequencer, fault):
        """Report a fault, if it is one, instead of those that were reported before."""
        with m.If(fault.status != Status.IDLE):
            m.d.comb += [
                sequencer.fault.eq(fault.status),
                sequencer.fault_engine.eq(fault.engine),
                sequencer.fault_instruction.eq(fault.instruction),
            ]

    def _count(self, m, counters, sequencer, tree, broadcasters, reader, rows):
        """Sum what was done as many cycles ago as the news takes from the channels; resets do not clear it.

        What the middle of the machine has done passes a register before it is summed.
        """

        def total(values):
            return sum(values, start=0)

        def registered(value):
            return delayed(m, Value.cast(value), 1, name="done", reset_less=True)

        def before(values):
            return delayed(m, Value.cast(total(values)), STAGES - 1, name="counted", reset_less=True)

        readings = [reading for broadcaster in broadcasters for reading in broadcaster.readings]
        beats = [(registered(reading.beat), registered(reading.kind)) for reading in readings]
        of_rows = registered(rows.beat)
        activity = [branch.activity for branch in tree]
        m.d.comb += counters.enable.eq(delayed(m, sequencer.running, STAGES, name="counting"))
        counters_of: dict[int, Any] = {Counter.CYCLES: 1}
        for kind in Cycle:
            counters_of[Counter.CYCLE_KINDS + kind] = total(unit.cycles[kind] for unit in activity)
        counters_of[Counter.MAC_PHASE] = total(unit.mac_phase for unit in activity)
        counters_of[Counter.ACTIVATION] = total(unit.activations for unit in activity)
        counters_of[Counter.SCALARS_SEEN] = before(registered(broadcaster.seen) for broadcaster in broadcasters)
        counters_of[Counter.SCALARS_SKIPPED] = before(registered(broadcaster.skipped) for broadcaster in broadcasters)
        counters_of[Counter.ROWS_SEEN] = before([registered(rows.seen)])
        counters_of[Counter.ROWS_SKIPPED] = before([registered(rows.skipped)])
        for traffic in contract.Traffic:
            loads = [beat & (kind == traffic) for beat, kind in beats]
            loads += [of_rows] if traffic == contract.Traffic.DELTAS else []
            counters_of[Counter.READ_BEATS + traffic] = total(unit.reads[traffic] for unit in activity) + before(loads)
            counters_of[Counter.WRITE_BEATS + traffic] = total(unit.writes[traffic] for unit in activity)
        counters_of[Counter.PROGRAM_BEATS] = before([registered(reader.o.valid & reader.o.ready)])
        for number, amount in counters_of.items():
            m.d.comb += counters.amounts[number].eq(amount)
