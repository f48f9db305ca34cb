"""A Verilated machine with a fault at one of its buses: the run ends with an error that names place and rule."""

import pytest
from amaranth import Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from etalstm.errors import ProtocolError
from etalstm_hw import contract
from etalstm_hw.contract import Register
from etalstm_sim.compiled.library import Design, build_library
from etalstm_sim.simulation import Simulation, Stop
from tests.sim.conftest import BEATS, ECHO_CONFIG, Echo

SOURCE, TARGET = 0x10000, 0x40000
FAULT = Register.GROUPS  # its word chooses the fault: a number of `FAULTS`


def fall(ready):
    """VALID that falls now and then while it waits for this READY."""
    return lambda bus, right, tick: right & (getattr(bus, ready) | tick)


def flip(bit):
    """A payload one bit of which never stays."""
    return lambda _, right, tick: right ^ tick << bit


def be(value):
    """Always the same value."""
    return lambda *_: value


def add(bits):
    """These bits are set."""
    return lambda _, right, __: right | bits


# Port, channel and rule of the breach; the port's signals that are wrong, as functions of the port, of what is right,
# and of a bit that toggles.
IN_RESET = be(ResetSignal())
FAULTS = {
    "a read address falls": ("port1", "AR", "held", {"arvalid": fall("arready")}),
    "a read address changes": ("port1", "AR", "stable", {"araddr": flip(9)}),
    "a read begins in reset": ("port1", "AR", "reset", {"arvalid": IN_RESET}),
    "a read is too long": ("port1", "AR", "length", {"arlen": be(BEATS)}),
    "a read has a fixed address": ("port1", "AR", "burst", {"arburst": be(0)}),
    "a read has narrow beats": ("port1", "AR", "size", {"arsize": be(2)}),
    "a read is not aligned": ("port1", "AR", "aligned", {"araddr": add(4)}),
    "a read crosses 4 KiB": ("port1", "AR", "boundary", {"araddr": add(0xFE0)}),
    "write data fall": ("port0", "W", "held", {"wvalid": fall("wready")}),
    "write data change": ("port0", "W", "stable", {"wdata": flip(200)}),
    "a write never ends": ("port0", "W", "last", {"wlast": be(0)}),
    "a write ends early": ("port0", "W", "last", {"wlast": be(1)}),
    "a write is shorter than its data": ("port0", "W", "last", {"awlen": be(BEATS - 2)}),
    "a write has some strobes": ("port0", "W", "strobe", {"wstrb": be(1)}),
    "data come without an address": ("port0", "W", "order", {"awvalid": be(0)}),
    "a register's answer falls": ("control", "R", "held", {"rvalid": fall("rready")}),
    "a register's answer changes": ("control", "R", "stable", {"rdata": flip(31)}),
    "a register answers unasked": ("control", "B", "unasked", {"bvalid": be(1)}),
    "a register answers in reset": ("control", "R", "reset", {"rvalid": IN_RESET}),
    "a register gives a strange answer": ("control", "B", "response", {"bresp": be(1)}),
}
NUMBERS = {what: number for number, what in enumerate(FAULTS, 1)}


class Faulty(wiring.Component):
    """An echo whose buses' signals are wrong, one after the other: its fault is chosen by a register."""

    def __init__(self):
        self._echo = Echo(ECHO_CONFIG)
        super().__init__(dict(self._echo.signature.members))

    def elaborate(self, _platform):
        m = Module()
        m.submodules.echo = echo = self._echo
        fault, tick = Signal(8, reset_less=True), Signal()
        m.d.sync += tick.eq(~tick)
        wrong = {}
        for what, (bus, _, _, signals) in FAULTS.items():
            for name, value in signals.items():
                wrong.setdefault((bus, name), []).append((NUMBERS[what], value))
        m.d.comb += self.interrupt.eq(echo.interrupt)
        for bus in ("control", "port0", "port1"):
            outer, inner = getattr(self, bus), getattr(echo, bus)
            for name, member in inner.signature.members.items():
                here, there = getattr(outer, name), getattr(inner, name)
                if member.flow is In:
                    m.d.comb += there.eq(here)
                    continue
                shown = there
                for number, value in wrong.get((bus, name), ()):
                    shown = Mux(fault == number, value(outer, there, tick), shown)
                m.d.comb += here.eq(shown)
        control = echo.control
        with m.If(control.awvalid & control.awready & (control.awaddr == FAULT)):
            m.d.sync += fault.eq(control.wdata)
        return m


@pytest.fixture(scope="module")
def library():
    return build_library(Design.of(Faulty()))


@pytest.fixture
def simulation(library):
    simulation = Simulation(library, 1 << 20, stall=0.5, seed=2)
    yield simulation
    simulation.close()


def copy(simulation):
    for register, value in (
        (Register.PROGRAM_LOW, SOURCE),
        (Register.WINDOW_LOW, TARGET),
        (Register.PROGRAM_LENGTH, 8),
        (Register.CONTROL, contract.CONTROL_START),
    ):
        simulation.write(register, value)
    assert simulation.run(100_000) is Stop.INTERRUPT
    for _ in range(20):
        simulation.read(Register.STATUS)


@pytest.mark.parametrize(("what", "found"), [(what, found) for what, (*found, _) in FAULTS.items()], ids=list(FAULTS))
def test_names_the_fault(simulation, what, found):
    copy(simulation)
    with pytest.raises(ProtocolError) as error:
        simulation.write(FAULT, NUMBERS[what])
        if "in reset" in what:
            simulation.reset()
        copy(simulation)
    assert [error.value.port, error.value.channel, error.value.rule] == found, error.value
    assert 0 < error.value.cycle <= simulation.cycle
    with pytest.raises(ProtocolError, match=f"in cycle {error.value.cycle} "):
        simulation.run(1)
