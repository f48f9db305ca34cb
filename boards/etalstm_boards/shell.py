"""The accelerator's side of a card: everything between the machine and the vendor's controllers."""

from collections import defaultdict

from amaranth.hdl import Cat, ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer, PulseSynchronizer, ResetSynchronizer
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_boards.axi3 import AXI3, connect_port
from etalstm_boards.control import HOST_ADDRESS_BITS, Control
from etalstm_boards.crossing import Crossing
from etalstm_boards.host_bridge import DMA_ADDRESS_BITS, DMA_ID_BITS, HostBridge
from etalstm_boards.interrupt import Interrupt
from etalstm_boards.isolate import Isolator
from etalstm_boards.join import Joiner, Slice
from etalstm_boards.ports import PortMap
from etalstm_boards.reset import Gate, ResetSequencer
from etalstm_hw.axi.axi import AXI4, AXI4Lite
from etalstm_hw.contract import BoardStatus

HEARTBEAT_BITS = 26  # of a counter at 100 MHz, whose highest bit blinks every 0.67 s
INTERRUPT_END, INTERRUPT_FAILURE = range(2)
INTERRUPTS = 2


def hbm_name(port: int) -> str:
    """Name the member for a port of the memory."""
    return f"hbm{port:02}"


class Shell(wiring.Component):
    """Connects a machine to memory and host, resets it, and shows its state.

    Its clock domains come from outside: ``board`` (100 MHz, always runs; its reset is the card's button), ``pcie`` (the
    host's link; in reset while that is down), ``hbm`` (in reset until the clocks run) and ``accelerator`` (its reset is
    not used). The machine is in reset until clocks and memory are ready, after a request of the host, and when the
    memory is too hot. The host can access the memory as soon as it is calibrated.

    Parameters
    ----------
    ports : PortMap
        Which port of the memory is whose.
    machine : Component
        With the members of :class:`etalstm_hw.machine.top.Top` and everything in domain ``sync``.
    host_bits : int
        Width of the host's DMA bus, 256 or 512.

    Members
    -------
    hbm00 … hbm31 : :py:`Out(AXI3())`
        The memory's ports that are used (:mod:`etalstm_boards.ports`), in domain ``hbm``.
    dma : :py:`In(AXI4(64, host_bits, 4))`
        The host's accesses to the memory, in domain ``pcie``.
    host : :py:`In(AXI4Lite(32))`
        Register accesses, in domain ``pcie``.
    requests, acknowledges : :py:`Out(2)`, :py:`In(2)`
        Interrupts, in domain ``pcie``: a program has ended; it has failed, or the memory is too hot.
    locked, calibrated, trip : :py:`In(1)`
        Clocks run, memory is ready, memory is too hot; of any clock.
    temperature : :py:`In(15)`
        Of the memory, in domain ``board``, as ``contract.BoardRegister.TEMPERATURE`` shows it.
    bit_errors : :py:`In(32)`
        Of the memory, in domain ``board``, as ``contract.BoardRegister.BIT_ERRORS`` shows them.
    alive, ready, running, error : :py:`Out(1)`
        For lights, in domain ``board``: blinks; memory calibrated; a program runs; it failed, or the memory is too hot.
    """

    def __init__(self, ports: PortMap, machine: wiring.Component, host_bits: int = 512):
        self._ports = ports
        self._machine = machine
        self._bridge = HostBridge(host_bits)
        super().__init__(
            {
                **{hbm_name(port): Out(AXI3()) for port in self._ports.used},
                "dma": In(AXI4(DMA_ADDRESS_BITS, host_bits, DMA_ID_BITS)),
                "host": In(AXI4Lite(HOST_ADDRESS_BITS)),
                "requests": Out(INTERRUPTS),
                "acknowledges": In(INTERRUPTS),
                "locked": In(1),
                "calibrated": In(1),
                "trip": In(1),
                "temperature": In(15),
                "bit_errors": In(32),
                "alive": Out(1),
                "ready": Out(1),
                "running": Out(1),
                "error": Out(1),
            }
        )

    def elaborate(self, platform):
        """Reset, memory, registers, interrupts, lights."""
        m = Module()
        m.submodules.reset = reset = DomainRenamer("board")(ResetSequencer())
        for domain, clock in (("machine", "accelerator"), ("memory", "hbm"), ("link", "pcie")):
            self._domain(m, domain, clock, reset.hold)
        m.submodules.accelerator = DomainRenamer("machine")(self._machine)
        m.submodules.control = control = DomainRenamer("pcie")(Control())
        connect(m, flipped(self.host), control.host)

        link_up = self._synchronized(m, ~ResetSignal("pcie"), "board", "link_up")
        self._sequence(m, reset, control, link_up)
        users = [*self._memory(m, reset), self._dma(m, reset, link_up)]
        self._connect_ports(m, users)
        self._registers(m, reset, control)
        running, ended, failed = (
            self._synchronized(m, self._registered(m, getattr(self._machine, name), "machine", name), "board", name)
            for name in ("running", "interrupt", "failed")
        )
        blink = Signal(HEARTBEAT_BITS)
        m.d.board += blink.eq(blink + 1)
        m.d.comb += [
            self.alive.eq(blink[-1]),
            self.ready.eq(reset.calibrated & reset.locked),
            self.running.eq(running),
            self.error.eq(failed | reset.tripped),
        ]
        failure = self._registered(m, self.error, "board", "failure")
        for number, level in ((INTERRUPT_END, ended), (INTERRUPT_FAILURE, failure)):
            m.submodules[f"interrupt{number}"] = interrupt = DomainRenamer("pcie")(Interrupt())
            m.d.comb += [
                interrupt.level.eq(self._synchronized(m, level, "pcie", f"level{number}")),
                interrupt.acknowledge.eq(self.acknowledges[number]),
                self.requests[number].eq(interrupt.request),
            ]
        return m

    @staticmethod
    def _domain(m, name, clock, reset):
        """Add a domain with the clock of another and a reset of its own, from any clock."""
        m.domains += ClockDomain(name, local=True)
        m.d.comb += ClockSignal(name).eq(ClockSignal(clock))
        m.submodules[f"{name}_reset"] = ResetSynchronizer(reset, domain=name)

    @staticmethod
    def _registered(m, signal, domain, name):
        """Register a signal before it crosses clocks, as logic may glitch; it is delayed by a cycle."""
        register = Signal(len(signal), name=f"{name}_registered")
        m.d[domain] += register.eq(signal)
        return register

    @staticmethod
    def _synchronized(m, signal, domain, name):
        """Give a level in another clock domain."""
        here = Signal(len(signal), name=name)
        m.submodules[f"{name}_sync"] = FFSynchronizer(signal, here, o_domain=domain)
        return here

    def _sequence(self, m, reset, control, link_up):
        """Connect the inputs of the reset sequencer; the loss of the host's link counts as a request."""
        m.submodules.request = request = PulseSynchronizer("pcie", "board")
        linked = Signal()
        m.d.board += linked.eq(link_up)
        m.d.comb += [
            request.i.eq(control.reset),
            reset.request.eq(request.o | (linked & ~link_up)),
            *(
                getattr(reset, name).eq(self._synchronized(m, getattr(self, name), "board", f"board_{name}"))
                for name in ("locked", "calibrated", "trip")
            ),
        ]

    def _memory(self, m, reset):
        """Bring the machine's ports to the memory's clock; give them."""
        stop = self._synchronized(m, reset.stop, "hbm", "machine_stop")
        isolators = [
            self._bring(m, f"{number}", getattr(self._machine, f"port{number}"), "machine", "memory", stop)
            for number in range(len(self._ports.accelerator))
        ]
        all_quiet = Signal()
        m.d.hbm += all_quiet.eq(Cat(isolator.quiet for isolator in isolators).all())
        m.d.comb += reset.quiet.eq(self._synchronized(m, all_quiet, "board", "board_quiet"))
        return [isolator.port for isolator in isolators]

    def _dma(self, m, reset, link_up):
        """Bring the host's bus to the memory's clock; give it.

        A link that goes down in the middle of a transfer must not leave the memory waiting.
        """
        m.submodules.dma_gate = gate = DomainRenamer("board")(Gate())
        m.d.comb += gate.up.eq(link_up & reset.calibrated & ~reset.trip)
        self._domain(m, "dma", "pcie", gate.hold)
        self._domain(m, "dma_memory", "hbm", gate.hold)
        m.submodules.bridge = DomainRenamer("dma")(self._bridge)
        connect(m, flipped(self.dma), self._bridge.host)
        stop = self._synchronized(m, gate.stop, "hbm", "dma_stop")
        return self._bring(m, "_host", self._bridge.port, "dma", "dma_memory", stop).port

    def _bring(self, m, name, manager, near, far, stop):
        """Cross to the memory's clock and isolate; give the isolator.

        The clock of shared ports leaves no time for the logic of crossing and isolator together.
        """
        bus = manager.signature
        m.submodules[f"crossing{name}"] = crossing = Crossing(bus, near=near, far=far)
        m.submodules[f"isolator{name}"] = DomainRenamer("hbm")(isolator := Isolator(bus))
        connect(m, manager, crossing.manager)
        if self._ports.shared:
            m.submodules[f"slice{name}"] = DomainRenamer(far)(between := Slice(bus))
            connect(m, crossing.port, between.manager)
            connect(m, between.port, isolator.manager)
        else:
            connect(m, crossing.port, isolator.manager)
        m.d.comb += isolator.stop.eq(stop)
        return isolator

    def _connect_ports(self, m, users):
        """Connect each port of the memory to its user, or join its two.

        Each user is isolated before: a reset of the machine in the middle of its bursts leaves the host's alone.
        """
        of_port = defaultdict(list)
        for port, user in zip((*self._ports.accelerator, self._ports.host), users, strict=True):
            of_port[port].append(user)
        for port, managers in of_port.items():
            target = getattr(self, hbm_name(port))
            if port not in self._ports.shared:
                connect_port(m, target, managers[0])
                continue
            m.submodules[f"joiner{port}"] = DomainRenamer("hbm")(joiner := Joiner())
            for side, manager in zip(joiner.sides, managers, strict=True):
                connect_port(m, side, manager)
            connect(m, joiner.port, flipped(target))

    def _registers(self, m, reset, control):
        """Cross to the machine's clock; show the board's state."""
        crossing = Crossing(control.machine.signature, near="link", far="machine")
        m.submodules.register_crossing = crossing
        connect(m, control.machine, crossing.manager)
        connect(m, crossing.port, self._machine.control)
        up = self._synchronized(m, self._registered(m, ~reset.hold, "board", "up"), "pcie", "up")
        bits = {
            BoardStatus.LOCKED: reset.locked,
            BoardStatus.CALIBRATED: reset.calibrated,
            BoardStatus.TRIPPED: reset.tripped,
            BoardStatus.UP: ~reset.hold,
        }
        state = self._registered(m, Cat(bits[flag] for flag in BoardStatus), "board", "state")
        m.d.comb += [
            control.up.eq(up),
            control.status.eq(self._synchronized(m, state, "pcie", "pcie_status")),
            control.temperature.eq(self._seen_by_host(m, self.temperature, "temperature")),
            control.bit_errors.eq(self._seen_by_host(m, self.bit_errors, "bit_errors")),
        ]

    def _seen_by_host(self, m, number, name):
        """Give a number, which must change seldom, in the host's domain."""
        arrived = self._synchronized(m, number, "pcie", f"arrived_{name}")
        before, steady = (Signal(len(number), name=f"{which}_{name}") for which in ("before", "steady"))
        m.d.pcie += before.eq(arrived)
        with m.If(arrived == before):  # bits that changed together may arrive one cycle apart
            m.d.pcie += steady.eq(arrived)
        return steady
