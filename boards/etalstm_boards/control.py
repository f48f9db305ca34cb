"""The host's register accesses: to the board itself at any time, to the machine while it is not in reset."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw import contract
from etalstm_hw.axi.axi import AXI4Lite
from etalstm_hw.contract import BoardRegister
from etalstm_hw.machine.registers import REGISTER_ADDRESS_BITS

HOST_ADDRESS_BITS = 32
_SPACE_BITS = (contract.BOARD_SPACE_BYTES - 1).bit_length()


class Control(wiring.Component):
    """Answers every access of the host, one at a time.

    Addresses below the board's registers go to the machine. While the machine is not `up`, and at addresses beyond its
    registers, reads give 0 and writes do nothing. So no access waits for a machine that is in reset. Addresses above
    ``contract.BOARD_SPACE_BYTES`` repeat.

    Members
    -------
    host : :py:`In(AXI4Lite(32))`
    machine : :py:`Out(AXI4Lite(...))`
    status : :py:`In(4)`          bits of :class:`contract.BoardStatus`
    up : :py:`In(1)`              the machine answers
    temperature : :py:`In(15)`    as ``BoardRegister.TEMPERATURE`` shows it
    bit_errors : :py:`In(32)`     as ``BoardRegister.BIT_ERRORS`` shows them
    reset : :py:`Out(1)`          the host asks for a reset of the machine; one cycle
    """

    def __init__(self):
        super().__init__(
            {
                "host": In(AXI4Lite(HOST_ADDRESS_BITS)),
                "machine": Out(AXI4Lite(REGISTER_ADDRESS_BITS)),
                "status": In(4),
                "up": In(1),
                "temperature": In(15),
                "bit_errors": In(32),
                "reset": Out(1),
            }
        )

    def elaborate(self, platform):
        """Take an access, pass it on or answer it, give the answer back."""
        m = Module()
        host, machine = self.host, self.machine
        address, word, address_taken, data_taken = Signal(_SPACE_BITS), Signal(32), Signal(), Signal()
        inside = Signal()
        m.d.comb += [
            machine.awaddr.eq(address),
            machine.araddr.eq(address),
            machine.wdata.eq(word),
            machine.wstrb.eq(~0),
            host.rdata.eq(word),
            inside.eq(self.up & (address < contract.REGISTER_SPACE_BYTES)),
        ]
        with m.FSM():
            with m.State("idle"):
                with m.If(host.awvalid & host.wvalid):
                    m.d.comb += [host.awready.eq(1), host.wready.eq(1)]
                    m.d.sync += [address.eq(host.awaddr), word.eq(host.wdata)]
                    m.d.sync += [address_taken.eq(0), data_taken.eq(0)]
                    m.next = "write"
                with m.Elif(host.arvalid):
                    m.d.comb += host.arready.eq(1)
                    m.d.sync += address.eq(host.araddr)
                    m.next = "read"
            with m.State("write"):
                m.d.comb += [machine.awvalid.eq(inside & ~address_taken), machine.wvalid.eq(inside & ~data_taken)]
                m.d.sync += [
                    address_taken.eq(address_taken | machine.awready),
                    data_taken.eq(data_taken | machine.wready),
                ]
                m.d.comb += machine.bready.eq(1)
                m.d.comb += self.reset.eq(
                    (address == BoardRegister.CONTROL) & word[contract.BOARD_RESET.bit_length() - 1]
                )
                with m.If(~inside | machine.bvalid):
                    m.next = "written"
            with m.State("written"):
                m.d.comb += host.bvalid.eq(1)
                with m.If(host.bready):
                    m.next = "idle"
            with m.State("read"):
                m.d.comb += machine.arvalid.eq(inside)
                m.d.sync += word.eq(self._board_register(address))
                with m.If(~inside):
                    m.next = "answer"
                with m.Elif(machine.arready):
                    m.next = "wait"
            with m.State("wait"):
                m.d.comb += machine.rready.eq(1)
                m.d.sync += word.eq(Mux(inside, machine.rdata, 0))
                with m.If(~inside | machine.rvalid):
                    m.next = "answer"
            with m.State("answer"):
                m.d.comb += host.rvalid.eq(1)
                with m.If(host.rready):
                    m.next = "idle"
        return m

    def _board_register(self, address):
        """Give the value of the board's register at an address."""
        words = {
            BoardRegister.STATUS: self.status,
            BoardRegister.TEMPERATURE: self.temperature,
            BoardRegister.BIT_ERRORS: self.bit_errors,
        }
        shown = 0
        for register, word in words.items():
            shown = Mux(address == register, word, shown)
        return shown
