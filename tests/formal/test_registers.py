"""Registers: AXI-Lite as it must be, words that stay as written, counters that are read in one piece."""

from amaranth.asserts import AnyConst
from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Signal

from tests.formal.harness import before, bench, patient, patient_input, payload
from tests.formal.prove import Mutant, Proof, pdr


def registers(load):
    """Follow one stored register and one counter, whichever the solver picks; the rest of the machine is free.

    All is as wide as it is: words are copied. The machine's sizes only show in constants.
    """
    contract = load("etalstm_hw.contract")
    unit = load("etalstm_hw.machine.registers").Registers(load("etalstm_hw.config").preset("test"))
    m = bench(unit)
    bus, register = unit.bus, contract.Register
    patient_input(m, bus.awvalid, bus.awready, bus.awaddr, name="aw")
    patient_input(m, bus.wvalid, bus.wready, bus.wdata, name="w")
    patient_input(m, bus.arvalid, bus.arready, bus.araddr, name="ar")
    patient(m, bus.bvalid, bus.bready, bus.bresp, name="b")
    patient(m, bus.rvalid, bus.rready, payload(bus.rdata, bus.rresp), name="r")

    written, asked = bus.awvalid & bus.awready, bus.arvalid & bus.arready
    owed_b, owed_r = Signal(), Signal()
    m.d.sync += [
        owed_b.eq(written | (owed_b & ~(bus.bvalid & bus.bready))),
        owed_r.eq(asked | (owed_r & ~(bus.rvalid & bus.rready))),
    ]
    place, word, got = AnyConst(len(bus.awaddr)), Signal(32), Signal(32)
    kept = list(contract.kept_words())
    m.d.comb += Assume(Cat(place == one for one in kept).any())
    with m.If(written & (bus.awaddr == place)):
        m.d.sync += word.eq(bus.wdata)

    # A counter: its low half, then its high half, are those of one moment.
    number, moment = AnyConst(4), Signal(64)
    low = register.COUNTER + (number << 3)
    now = Array(unit.counters[n] for n in range(contract.Counter.COUNT))[number]
    any_low = asked & (bus.araddr >= register.COUNTER) & ~bus.araddr[2]
    followed = Signal()  # of all counters, this one's low half was read last
    with m.If(any_low):
        m.d.sync += followed.eq(bus.araddr == low)
    with m.If(asked & (bus.araddr == low)):
        m.d.sync += moment.eq(now)
    m.d.comb += Assume(number < contract.Counter.COUNT)
    reads = {"kept": place, "low": low, "high": low + 4, "magic": register.MAGIC}
    is_read = {name: before(m, asked & (bus.araddr == at), name=name) for name, at in reads.items()}
    strange = AnyConst(len(bus.araddr))  # there is no such register
    m.d.comb += Assume((strange[:2] != 0) & (strange < register.COUNTER))
    control = written & (bus.awaddr == register.CONTROL)
    m.d.sync += got.eq(word)
    m.d.comb += [
        Assert(bus.bvalid == owed_b),
        Assert(bus.rvalid == owed_r),
        Assert(bus.wready == bus.awready),
        Assert(~bus.awready | (bus.awvalid & bus.wvalid)),
        Assert(~bus.awready | ~owed_b | before(m, bus.bready, name="bready")),
        Assert(~(bus.rvalid & is_read["kept"]) | (bus.rdata == got)),
        Assert(~is_read["low"] | (bus.rdata == moment[:32])),
        Assert(~(is_read["high"] & followed) | (bus.rdata == moment[32:])),
        Assert(~is_read["magic"] | (bus.rdata == contract.MAGIC)),
        Assert(~before(m, asked & (bus.araddr == strange), name="strange") | (bus.rdata == 0)),
        Assert(unit.start == (control & bus.wdata[0] & ~unit.running)),
        Assert(unit.abort == (control & bus.wdata[1])),
        Cover(is_read["high"] & followed & (bus.rdata == 5) & (moment[:32] == 7)),
        Cover(is_read["kept"] & (bus.rdata == 9) & owed_b),
    ]
    low, high = (place == at for at in (register.PROGRAM_LOW, register.PROGRAM_HIGH))
    page, bits = (contract.PAGE_BYTES - 1).bit_length(), len(unit.program) - 1
    m.d.comb += [
        Assert(~low | (unit.program[:32] == word)),
        Assert(~low | (word[:page] == 0) | unit.program[bits]),
        Assert(~high | (unit.program[32:bits] == word[: bits - 32])),
        Assert(~high | (word[bits - 32 :] == 0) | unit.program[bits]),
        Cover(high & (word != 0) & ~unit.program[bits]),
    ]
    for name, at in (("watchdog", register.WATCHDOG), ("length", register.PROGRAM_LENGTH), ("groups", register.GROUPS)):
        m.d.comb += Assert((place != at) | (getattr(unit, name) == word))
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.machine.registers", old, new, survives)


PROOFS = [
    Proof(
        name="Registers",
        build=registers,
        claim="one answer for each access, stored words read as written, a counter's halves are of one moment, "
        "a program begins where it was told or nowhere",
        method=pdr(),
        reach=10,
        mutants=(
            _mutant("& ~bus.awready & (~bus.bvalid | bus.bready)", "& ~bus.awready"),
            _mutant("& ~bus.awready & (~bus.bvalid | bus.bready)", "& (~bus.bvalid | bus.bready)"),
            _mutant("bus.awvalid & bus.wvalid & ~bus.awready", "bus.awvalid & ~bus.awready"),
            _mutant("with m.If(bus.bready):", "with m.If(1):"),
            _mutant("with m.If(bus.rready):", "with m.If(1):"),
            _mutant("bus.arready.eq(~bus.rvalid)", "bus.arready.eq(1)"),
            _mutant("wants_start & ~self.running),", "wants_start),"),
            _mutant(
                "m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(0)]",
                "m.d.sync += [bus.rvalid.eq(1)]",
            ),
            _mutant("with m.If(~word[0]):", "with m.If(word[0]):"),
            _mutant("Mux(word[0], latched, counter[:32])", "Mux(word[0], counter[32:], counter[:32])"),
            _mutant("[word >> 1])", "[word])"),
            _mutant("self.length.eq(stored[Register.PROGRAM_LENGTH])", "self.length.eq(stored[Register.WATCHDOG])"),
            _mutant("m.d.sync += word.eq(bus.wdata)", "m.d.sync += word.eq(bus.wdata | 1)"),
            _mutant("beyond | program[:_PAGE_SHIFT].any()", "program[:_PAGE_SHIFT].any()"),
            _mutant("beyond | program[:_PAGE_SHIFT].any()", "beyond"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
