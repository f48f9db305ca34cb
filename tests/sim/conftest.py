import pytest
from amaranth import Array, Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import AXI4, INCR, AXI4Lite, AXI4Read
from etalstm_hw.config import Config
from etalstm_hw.contract import Engine, Status
from etalstm_hw.machine.registers import Registers
from etalstm_sim.compiled.library import Design, build_library

BEATS = 16


class Echo(wiring.Component):
    """Stands in for the accelerator: copies `length` bursts from the program's address to the first window.

    A faulty burst ends the copy with a status; the counters' first word counts cycles of the copy.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(AXI4Lite(10)),
                "port0": Out(AXI4(config.address_bits, config.beat_bits)),
                "port1": Out(AXI4Read(config.address_bits, config.beat_bits)),
                "interrupt": Out(1),
            }
        )

    def elaborate(self, _platform):
        m = Module()
        config = self.config
        m.submodules.registers = registers = Registers(config)
        wiring.connect(m, wiring.flipped(self.control), registers.bus)
        write, read = self.port0, self.port1
        status, cycles = Signal(Status), Signal(64)
        burst, beat, failed = Signal(32), Signal(5), Signal(2)
        announced, sent = Signal(), Signal()
        words = Array(Signal(config.beat_bits, name=f"word{n}") for n in range(BEATS))
        offset = Cat(Const(0, (BEATS * config.beat_bytes - 1).bit_length()), burst)
        size = (config.beat_bytes - 1).bit_length()
        m.d.comb += [
            registers.status.eq(status),
            registers.running.eq(status == Status.RUNNING),
            registers.engine.eq(Engine.STORE),
            registers.instruction.eq(burst),
            registers.counters[0].eq(cycles),
            self.interrupt.eq(status > Status.RUNNING),
            *(bus.eq(BEATS - 1) for bus in (read.arlen, write.awlen)),
            *(bus.eq(size) for bus in (read.arsize, write.awsize)),
            *(bus.eq(INCR) for bus in (read.arburst, write.awburst)),
            read.araddr.eq(registers.program + offset),
            write.awaddr.eq(registers.windows.base + offset),
            write.wdata.eq(words[beat[:4]]),
            write.wlast.eq(beat == BEATS - 1),
            write.wstrb.eq(~0),
        ]
        m.d.sync += cycles.eq(cycles + registers.running)
        with m.FSM():
            with m.State("idle"), m.If(registers.start):
                m.d.sync += [status.eq(Status.RUNNING), burst.eq(0), cycles.eq(0), failed.eq(0)]
                m.next = "ask"
            with m.State("ask"):
                m.d.comb += read.arvalid.eq(1)
                m.d.sync += beat.eq(0)
                with m.If(read.arready):
                    m.next = "read"
            with m.State("read"):
                m.d.comb += read.rready.eq(1)
                with m.If(read.rvalid):
                    m.d.sync += [words[beat[:4]].eq(read.rdata), beat.eq(beat + 1), failed.eq(failed | read.rresp)]
                    with m.If(read.rlast):
                        m.d.sync += beat.eq(0)
                        m.next = "check"
            with m.State("check"):
                m.d.sync += [announced.eq(0), sent.eq(0)]
                m.next = "write"
                with m.If(failed.any()):
                    m.d.sync += status.eq(Status.READ_ERROR)
                    m.next = "idle"
            with m.State("write"):
                # Neither channel waits for the other, as AXI demands of a manager.
                m.d.comb += [write.awvalid.eq(~announced), write.wvalid.eq(~sent)]
                address_taken, data_taken = write.awvalid & write.awready, write.wvalid & write.wready
                m.d.sync += [announced.eq(announced | address_taken), beat.eq(beat + data_taken)]
                with m.If(data_taken & write.wlast):
                    m.d.sync += sent.eq(1)
                with m.If((announced | address_taken) & (sent | (data_taken & write.wlast))):
                    m.next = "confirm"
            with m.State("confirm"):
                m.d.comb += write.bready.eq(1)
                with m.If(write.bvalid):
                    m.next = "ask"
                    m.d.sync += burst.eq(burst + (write.bresp == 0))
                    with m.If(write.bresp.any()):
                        m.d.sync += status.eq(Status.WRITE_ERROR)
                        m.next = "idle"
                    with m.Elif(burst + 1 == registers.length):
                        m.d.sync += status.eq(Status.DONE)
                        m.next = "idle"
        return m


ECHO_CONFIG = Config(channels=2, lanes=8, address_bits=24)


@pytest.fixture(scope="session")
def echo_config():
    return ECHO_CONFIG


@pytest.fixture(scope="session")
def echo_design():
    return Design.of(Echo(ECHO_CONFIG))


@pytest.fixture(scope="session")
def echo_library(echo_design):
    return build_library(echo_design)
