"""AXI4-Lite registers of the machine, as :class:`contract.Register` declares them."""

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw import contract
from etalstm_hw.axi.axi import AXI4Lite
from etalstm_hw.config import Config
from etalstm_hw.contract import BINARY32, Register, Status
from etalstm_hw.machine.settings import QUASI_STATIC
from etalstm_hw.stream import Slots, Windows

REGISTER_ADDRESS_BITS = (contract.REGISTER_SPACE_BYTES - 1).bit_length()
_PAGE_SHIFT = (contract.PAGE_BYTES - 1).bit_length()


class Registers(wiring.Component):
    """Answers accesses, one every other cycle of each kind; unknown addresses read 0 and swallow writes.

    A write is taken in the cycle after its address and its data have both come, and its response follows in the next
    one. A read is taken at once and answered in the cycle after. Every ready comes from a register.

    Reading the low half of a counter latches its high half, which the next read of a high half gives: a counter that
    counts is read consistently. Windows that do not all lie below 2^address_bits, or do not begin at a page, have the
    size 0, from the third cycle after they were written on; nothing can be accessed in them.

    What is kept settles within two cycles, which is as soon as the bus can take a START. A word that is read before its
    write is answered may be a mix of old and new bits.

    A START while a program runs is counted in REFUSED and has no other effect.

    Parameters
    ----------
    config : Config
    build : int
        What BUILD reads as, 32 bits.

    Members
    -------
    bus : :py:`In(AXI4Lite(...))`
    start, abort : :py:`Out(1)`                  pulses
    program, length, watchdog, windows : Out     what the host has set; a program that begins at no page or beyond the
                                                 addresses has the bit above them set, so that it is not read
    groups : :py:`Out(32)`                       how many groups of channels the host wants
    parameters : :py:`Out(data.ArrayLayout)`     operands of vector instructions
    slots, send_zeros : Out                      how the PEs are divided; zero scalars are sent too
    running, status, engine, instruction : In    from the sequencer
    counters : :py:`In(data.ArrayLayout(64, Counter.COUNT))`
    """

    def __init__(self, config: Config, *, build: int = 0):
        self._config, self._build = config, build
        super().__init__(
            {
                "bus": In(AXI4Lite(REGISTER_ADDRESS_BITS)),
                "start": Out(1),
                "abort": Out(1),
                "program": Out(config.address_bits + 1),
                "length": Out(32),
                "watchdog": Out(32),
                "windows": Out(Windows(config.address_bits)),
                "groups": Out(32),
                "parameters": Out(data.ArrayLayout(BINARY32.width, contract.PARAMETERS)),
                "slots": Out(Slots()),
                "send_zeros": Out(1),
                "running": In(1),
                "status": In(Status),
                "engine": In(4),
                "instruction": In(32),
                "counters": In(data.ArrayLayout(64, contract.Counter.COUNT)),
            }
        )

    def elaborate(self, platform):
        """Words that the host writes, and a table of what it reads."""
        m = Module()
        config = self._config
        words = contract.kept_words()
        stored = {
            offset: Signal(32, name=name.lower().replace(" ", ""), attrs=QUASI_STATIC) for offset, name in words.items()
        }
        refused = Signal(32)
        program = Cat(stored[Register.PROGRAM_LOW], stored[Register.PROGRAM_HIGH], C(0, 1))
        beyond = program[config.address_bits :].any()
        m.d.comb += [
            self.program.eq(Cat(program[: config.address_bits], beyond | program[:_PAGE_SHIFT].any())),
            self.length.eq(stored[Register.PROGRAM_LENGTH]),
            self.watchdog.eq(stored[Register.WATCHDOG]),
            self.groups.eq(stored[Register.GROUPS]),
            *(self.parameters[n].eq(stored[Register.PARAMETER + 4 * n]) for n in range(contract.PARAMETERS)),
            *(self.slots[name].eq(stored[Register.SHARES].word_select(n, 8)) for n, name in enumerate(contract.SHARES)),
            self.send_zeros.eq(stored[Register.SEND_ZEROS]),
        ]

        readable = {
            Register.MAGIC: contract.MAGIC,
            Register.VERSION: contract.VERSION,
            Register.PRESET: config.digest,
            Register.SHAPE: config.channels | config.lanes << 16 | config.integer_pes << 24,
            Register.STATUS: Mux(self.running, Status.RUNNING, self.status),  # its reason is known before its end
            Register.ERROR_ENGINE: self.engine,
            Register.ERROR_INSTRUCTION: self.instruction,
            Register.REFUSED: refused,
            Register.BUILD: self._build,
            **stored,
        }
        self._place_windows(m, stored)
        bus = self.bus
        m.d.comb += [bus.wready.eq(bus.awready), bus.arready.eq(~bus.rvalid)]
        m.d.sync += bus.awready.eq(bus.awvalid & bus.wvalid & ~bus.awready & (~bus.bvalid | bus.bready))
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)

        with m.If(bus.awready):
            m.d.sync += bus.bvalid.eq(1)
            with m.Switch(bus.awaddr):
                with m.Case(Register.CONTROL):
                    wants_start = bus.wdata[contract.CONTROL_START.bit_length() - 1]
                    m.d.comb += [
                        self.start.eq(wants_start & ~self.running),
                        self.abort.eq(bus.wdata[contract.CONTROL_ABORT.bit_length() - 1]),
                    ]
                    m.d.sync += refused.eq(refused + (wants_start & self.running))
                for offset, word in stored.items():
                    with m.Case(offset):
                        m.d.sync += word.eq(bus.wdata)

        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(0)]
            with m.Switch(bus.araddr):
                for register, word in readable.items():
                    with m.Case(register):
                        m.d.sync += bus.rdata.eq(word)
                with m.Default():
                    with m.If(bus.araddr >= Register.COUNTER):
                        self._read_counter(m, bus)
        return m

    def _place_windows(self, m, stored):
        """Give the windows; where the last one ends is computed without losing a bit, an addition a cycle."""
        base = Cat(stored[Register.WINDOW_LOW], stored[Register.WINDOW_HIGH])
        stride, size = stored[Register.WINDOW_STRIDE] << _PAGE_SHIFT, stored[Register.WINDOW_SIZE] << _PAGE_SHIFT
        reach = Signal(len(stride) + contract.CHANNEL_BITS, reset_less=True)  # from the first window to the last's end
        outside = Signal(init=1, attrs=QUASI_STATIC)
        m.d.sync += [
            reach.eq(stride * (self._config.channels - 1) + size),
            outside.eq((base + reach > 1 << self._config.address_bits) | base[:_PAGE_SHIFT].any()),
        ]
        m.d.comb += [
            self.windows.base.eq(base),
            self.windows.stride.eq(stride),
            self.windows.size.eq(Mux(outside, 0, size)),
        ]

    def _read_counter(self, m, bus):
        """Answer with the low half of a counter and latch the high one, or with what was latched."""
        latched, word = Signal(32), (bus.araddr - Register.COUNTER) >> 2
        counter = Signal(64)
        m.d.comb += counter.eq(Array(self.counters[n] for n in range(contract.Counter.COUNT))[word >> 1])
        m.d.sync += bus.rdata.eq(Mux(word[0], latched, counter[:32]))
        with m.If(~word[0]):
            m.d.sync += latched.eq(counter[32:])
