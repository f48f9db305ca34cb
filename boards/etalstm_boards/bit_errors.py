"""The number of bit errors that the memory controllers have found, from their counters, which are polled."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_boards.apb import APB
from etalstm_boards.hbm import STACKS
from etalstm_hw.contract import BIT_ERRORS_KNOWN, BIT_ERRORS_SHIFT

CONTROLLERS = 8  # of a stack
REGISTERS = (0x05828, 0x05834, 0x0582C, 0x05838)
"""STAT_ECC_ERROR_1BIT_CNT of both pseudo channels of a controller, then their STAT_ECC_ERROR_2BIT_CNT (AMD PG276)."""
COUNT_BITS = 8  # of a counter; it stays at its largest value
_REGISTER_BITS = 17  # of an address
_SUM_BITS = 13  # of two counters of each controller


class BitErrors(wiring.Component):
    """Adds up the counters of all controllers, round after round.

    A round reads each counter once, over APB. The sums change after the round's last read. A read takes three cycles
    and the controller's response time. A controller that never answers stops the rounds.

    Members
    -------
    stack0, stack1 : :py:`Out(APB())`
    calibrated : :py:`In(1)`
        The controllers are set up. Until then the vendor's logic uses their registers, and nothing is read.
    found : :py:`Out(32)`
        As ``contract.BoardRegister.BIT_ERRORS`` shows it; 0 until a round is complete, and without `calibrated`.
    """

    def __init__(self):
        buses = {f"stack{number}": Out(APB()) for number in range(STACKS)}
        super().__init__({**buses, "calibrated": In(1), "found": Out(32)})

    def elaborate(self, platform):
        """Count the position in the round, and add up."""
        m = Module()
        register, controller, stack = Signal(range(len(REGISTERS))), Signal(range(CONTROLLERS)), Signal(range(STACKS))
        position = Cat(register, controller, stack)
        sums, failed = [Signal(_SUM_BITS, name=name) for name in ("corrected", "uncorrectable")], Signal()
        restart = [position.eq(0), *(each.eq(0) for each in sums), failed.eq(0)]
        registers = Array(Const(each, _REGISTER_BITS) for each in REGISTERS)
        idle, done, bus = self._access(m, stack, _address(controller, registers[register]))
        count = bus.prdata[:COUNT_BITS]
        totals = [sums[0] + Mux(register[1], 0, count), sums[1] + Mux(register[1], count, 0)]
        unreadable = failed | bus.pslverr
        with m.If(done):
            m.d.sync += [position.eq(position + 1), failed.eq(unreadable)]
            m.d.sync += [each.eq(total) for each, total in zip(sums, totals, strict=True)]
            with m.If(position.all()):
                m.d.sync += [*restart, self.found.eq(Mux(unreadable, 0, _shown(*totals)))]
        with m.Elif(idle & ~self.calibrated):
            m.d.sync += [*restart, self.found.eq(0)]
        return m

    def _access(self, m, stack, address):
        """Read an address of a stack again and again; give signals "no read in flight" and "read ends", and the bus."""
        buses = Array(getattr(self, f"stack{number}") for number in range(STACKS))
        idle, done, select, enable = (Signal(name=name) for name in ("idle", "done", "select", "enable"))
        for number, bus in enumerate(buses):
            chosen = stack == number
            m.d.comb += [bus.paddr.eq(address), bus.psel.eq(select & chosen), bus.penable.eq(enable & chosen)]
        with m.FSM():
            with m.State("idle"):
                m.d.comb += idle.eq(1)
                with m.If(self.calibrated):
                    m.next = "setup"
            with m.State("setup"):
                m.d.comb += select.eq(1)
                m.next = "access"
            with m.State("access"):
                m.d.comb += [select.eq(1), enable.eq(1), done.eq(buses[stack].pready)]
                with m.If(done):
                    m.next = "idle"
        return idle, done, buses[stack]


def _address(controller, register):
    """Give the address of a controller's register (AMD PG276, memory controller register map).

    The highest five bits choose the controller: 01000, 01100, 01001, 01101, … for controllers 0, 1, 2, 3, …
    """
    return Cat(register[:_REGISTER_BITS], controller[1:], controller[0], Const(0b01, 2))


def _shown(corrected, uncorrectable):
    """Give the word of ``contract.BoardRegister.BIT_ERRORS`` for both sums."""
    return corrected | uncorrectable << BIT_ERRORS_SHIFT | BIT_ERRORS_KNOWN
