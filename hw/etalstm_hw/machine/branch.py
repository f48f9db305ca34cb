"""A branch of the tree: some channels, and the registers between them and the middle of the machine."""

from functools import reduce
from operator import and_

from amaranth.hdl import Cat, ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.axi.axi import AXI4
from etalstm_hw.config import Config
from etalstm_hw.contract.distance import LEAF_STAGES, TRUNK_STAGES
from etalstm_hw.machine.channel import ENGINES, Channel
from etalstm_hw.machine.counters import Activity, activity_of
from etalstm_hw.machine.faults import Fault, Faults
from etalstm_hw.machine.settings import QUASI_STATIC, Settings
from etalstm_hw.machine.tree import delayed


class Orders(data.StructLayout):
    """What the middle decides in each cycle: reset, drain, and whether an instruction or a scalar goes out."""

    def __init__(self):
        super().__init__(dict.fromkeys(("reset", "drain", "instruction", "scalar"), 1))


class Payload(data.StructLayout):
    """What goes to the channels of a branch.

    Members
    -------
    instruction, scalar : valid if the orders say so
    stored_by_all : instructions that the STORE engine of every channel has completed
    """

    def __init__(self, channel: wiring.Signature):
        streams = {"instruction": "i", "scalar": "scalars"}
        super().__init__(
            {name: channel.members[member].signature.members["payload"].shape for name, member in streams.items()}
            | {"stored_by_all": channel.members["stored_by_all"].shape}
        )


class Report(data.StructLayout):
    """What comes back from the channels of a branch.

    Members
    -------
    rooms, scalar_room : every channel has room, see :class:`Channel`; of scalars by stream
    busy, dma_busy, progress : one at least
    stored : a bit for each channel whose STORE engine has completed an instruction
    """

    def __init__(self, channels: int, streams: int):
        super().__init__(
            {"rooms": len(ENGINES), "scalar_room": streams, "busy": 1, "dma_busy": 1, "progress": 1, "stored": channels}
        )


class Branch(wiring.Component):
    """Channels, with a trunk and leaves of registers to and from them; see :mod:`etalstm_hw.machine.tree`.

    Every member but ``axi`` is ``distance.STAGES`` cycles away from the channels. The channels' reset is an order,
    so that it stays in order with instructions and scalars. It is set until the first order arrives.

    Parameters
    ----------
    config : Config
    channels : int
        How many there are, at most ``tree.FAN_OUT``.
    channel : callable
        Makes a channel of a configuration.

    Members
    -------
    orders : :py:`In(Orders())`
    payload : :py:`In(Payload(...))`
    settings : :py:`In(Settings(...))`
    report : :py:`Out(Report(channels, streams))`
    fault : :py:`Out(Fault())`                 of the first channel that has one
    activity : :py:`Out(Activity(...))`        what the channels did, for the counters
    axi : :py:`Out(AXI4(...)).array(channels)`
    """

    def __init__(self, config: Config, channels: int, *, channel=Channel):
        self._config, self._channels = config, [channel(config) for _ in range(channels)]
        super().__init__(
            {
                "orders": In(Orders(), init={"reset": 1}),
                "payload": In(Payload(self._channels[0].signature)),
                "settings": In(Settings(config.address_bits)),
                "report": Out(Report(channels, config.integer_streams)),
                "fault": Out(Fault()),
                "activity": Out(Activity(channels, config.activation_units)),
                "axi": Out(AXI4(config.address_bits, config.beat_bits)).array(channels),
            }
        )

    def elaborate(self, platform):
        """Down the trunk and into the leaves; out of the leaves, joined, and up the trunk."""
        m = Module()
        orders = delayed(m, self.orders, TRUNK_STAGES, name="orders", init={"reset": 1})
        payload = delayed(m, self.payload, TRUNK_STAGES, name="payload", reset_less=True)
        settings = delayed(m, self.settings, TRUNK_STAGES, name="settings", reset_less=True)
        m.submodules.faults = faults = Faults(len(self._channels))
        reports = []
        for number, channel in enumerate(self._channels):
            order = delayed(m, orders, LEAF_STAGES, name=f"order{number}_", init={"reset": 1})
            message = delayed(m, payload, LEAF_STAGES, name=f"message{number}_", reset_less=True)
            self._reset_by_leaf(m, number, channel, order.reset)
            self._connect_inputs(m, channel, order, message)
            self._connect_settings(m, number, channel, settings)
            reports.append(delayed(m, self._collect(m, number, channel), LEAF_STAGES, name=f"report{number}_"))
            m.d.comb += [
                faults.channels[number][name].eq(getattr(channel, name)) for name in ("status", "engine", "completed")
            ]
            connect(m, channel.axi, flipped(self.axi[number]))
        report = delayed(m, self._join(m, reports), TRUNK_STAGES, name="joined")
        # The first fault, and the sums of what the channels did, are in a register of the trunk already.
        fault = delayed(m, faults.fault, TRUNK_STAGES - 1, name="fault")
        activity = activity_of(m, self._channels, self._config.activation_units)
        m.d.comb += [
            self.report.eq(report),
            self.fault.eq(fault),
            self.activity.eq(delayed(m, activity, TRUNK_STAGES - 1, name="activity", reset_less=True)),
        ]
        return m

    def _reset_by_leaf(self, m, number, channel, reset):
        """Give a channel a domain whose reset comes from its leaf."""
        domain = f"leaf{number}"
        m.domains += ClockDomain(domain, local=True)
        m.d.comb += [ClockSignal(domain).eq(ClockSignal()), ResetSignal(domain).eq(reset)]
        m.submodules[f"channel{number}"] = DomainRenamer(domain)(channel)

    def _connect_inputs(self, m, channel, order, message):
        """Connect what a channel takes; it has said that it has room for whatever comes."""
        m.d.comb += [
            channel.drain.eq(order.drain),
            channel.i.valid.eq(order.instruction),
            channel.i.p.eq(message.instruction),
            channel.scalars.valid.eq(order.scalar),
            channel.scalars.p.eq(message.scalar),
            channel.stored_by_all.eq(message.stored_by_all),
        ]

    def _connect_settings(self, m, number, channel, settings):
        """Give a channel its leaf of the settings, and its own position in the group."""
        mine = delayed(m, settings, LEAF_STAGES, name=f"setting{number}_", reset_less=True, attrs=QUASI_STATIC)
        m.d.comb += [
            *(getattr(channel, name).eq(mine[name]) for name in ("windows", "parameters", "slots", "group")),
            channel.group.position.eq(mine.group.position + number),
        ]

    def _collect(self, m, number, channel):
        """Collect what a channel says, with the layout of a branch of one."""
        report = Signal(Report(1, self._config.integer_streams), name=f"report{number}")
        names = ("rooms", "scalar_room", "busy", "dma_busy", "progress")
        m.d.comb += [*(report[name].eq(getattr(channel, name)) for name in names), report.stored.eq(channel.store_done)]
        return report

    def _join(self, m, reports):
        """Join what the channels say."""
        joined = Signal(Report(len(reports), self._config.integer_streams))
        for name in ("busy", "dma_busy", "progress"):
            m.d.comb += joined[name].eq(Cat(report[name] for report in reports).any())
        m.d.comb += [
            joined.rooms.eq(Cat(Cat(report.rooms[n] for report in reports).all() for n in range(len(ENGINES)))),
            joined.scalar_room.eq(reduce(and_, [report.scalar_room for report in reports])),
            joined.stored.eq(Cat(report.stored for report in reports)),
        ]
        return joined
