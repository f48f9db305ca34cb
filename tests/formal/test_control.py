"""Control: every access of the host is answered once, machine or not, and reaches the right registers."""

from amaranth.hdl import Assert, Assume, Cover, Signal

from tests.formal.harness import before, bench, patient, patient_input, payload
from tests.formal.prove import Mutant, Proof, pdr


def control(load):
    """Follow one access at a time; the machine answers what it has taken, and nothing once it is down.

    Addresses and words are as wide as they are: they are copied and compared.
    """
    contract = load("etalstm_hw.contract")
    unit = load("etalstm_boards.control").Control()
    m = bench(unit)
    host, machine, up = unit.host, unit.machine, unit.up
    patient_input(m, host.awvalid, host.awready, host.awaddr, name="aw")
    patient_input(m, host.wvalid, host.wready, host.wdata, name="w")
    patient_input(m, host.arvalid, host.arready, host.araddr, name="ar")
    patient(m, host.bvalid, host.bready, host.bresp, name="b")
    patient(m, host.rvalid, host.rready, payload(host.rdata, host.rresp), name="r")

    writing, reading = Signal(), Signal()  # an access of the host is under way
    taken_w, taken_r = host.awvalid & host.awready, host.arvalid & host.arready
    space = (contract.BOARD_SPACE_BYTES - 1).bit_length()
    address, word = Signal(space), Signal(32)
    inside = address < contract.REGISTER_SPACE_BYTES
    with m.If(host.bvalid & host.bready):
        m.d.sync += writing.eq(0)
    with m.If(host.rvalid & host.rready):
        m.d.sync += reading.eq(0)
    with m.If(taken_w):
        m.d.sync += [writing.eq(1), address.eq(host.awaddr), word.eq(host.wdata)]
    with m.If(taken_r):
        m.d.sync += [reading.eq(1), address.eq(host.araddr)]

    # The machine: takes each of the three in its time, answers afterwards, forgets all while it is down.
    has_aw, has_w, has_ar = Signal(), Signal(), Signal()
    aw, w, ar = (getattr(machine, f"{name}valid") & getattr(machine, f"{name}ready") for name in ("aw", "w", "ar"))
    answered_w, answered_r = machine.bvalid & machine.bready, machine.rvalid & machine.rready
    m.d.comb += [Assume(~machine.bvalid | (has_aw & has_w)), Assume(~machine.rvalid | has_ar)]
    m.d.sync += [has_aw.eq((has_aw | aw) & ~answered_w & up), has_w.eq((has_w | w) & ~answered_w & up)]
    m.d.sync += has_ar.eq((has_ar | ar) & ~answered_r & up)
    stayed = Signal()  # the machine was up since the access began
    m.d.sync += stayed.eq(up & (stayed | taken_w | taken_r))
    value = Signal(32)
    with m.If(taken_r):
        m.d.sync += value.eq(0)
    with m.If(answered_r):
        m.d.sync += value.eq(machine.rdata)
    own = payload(unit.status)
    idle_for = Signal(4)  # cycles that an access waits, where the machine answers at once or is not asked
    eager = ~(up & inside) | (
        machine.awready
        & machine.wready
        & machine.arready
        & (machine.bvalid | ~(has_aw & has_w))
        & (machine.rvalid | ~has_ar)
    )
    m.d.sync += idle_for.eq(0)
    with m.If((writing | reading) & eager & ~host.bvalid & ~host.rvalid):
        m.d.sync += idle_for.eq(idle_for + 1)
    m.d.comb += [
        Assert(host.awready == host.wready),
        Assert(~host.awready | (host.awvalid & host.wvalid)),
        Assert(~(writing & reading) & ~(taken_w & taken_r)),
        Assert(~((writing | reading) & (taken_w | taken_r))),
        Assert(~host.bvalid | writing),
        Assert(~host.rvalid | reading),
        Assert(idle_for <= 4),
        Assert(~machine.awvalid | (writing & inside & up & (machine.awaddr == address) & ~(has_aw & stayed))),
        Assert(~machine.wvalid | (writing & inside & up & (machine.wdata == word) & ~(has_w & stayed))),
        Assert(~machine.arvalid | (reading & inside & up & (machine.araddr == address) & ~(has_ar & stayed))),
        Assert(~unit.reset | (writing & (address == contract.BoardRegister.CONTROL))),
        Assert(~(host.rvalid & stayed & inside) | (host.rdata == value)),
        Assert(~(host.rvalid & ~inside & (address == contract.BoardRegister.STATUS)) | (host.rdata[4:] == 0)),
        Assert(
            ~(host.rvalid & ~before(m, host.rvalid, name="r_before") & (address == contract.BoardRegister.STATUS))
            | (host.rdata == before(m, own, name="own"))
        ),
        Assert(~(host.bvalid & stayed & inside) | ~(has_aw | has_w)),
        Cover(host.rvalid & stayed & inside & (host.rdata == 5)),
        Cover(host.bvalid & ~up & inside),
        Cover(unit.reset),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_boards.control", old, new, survives)


PROOFS = [
    Proof(
        name="Control",
        build=control,
        claim="one access at a time, each answered once and in time; the machine is asked only while it is up",
        method=pdr(),
        reach=12,
        mutants=(
            _mutant("inside.eq(self.up & (address", "inside.eq((address"),
            _mutant("address < contract.REGISTER_SPACE_BYTES", "address <= contract.REGISTER_SPACE_BYTES"),
            _mutant("with m.If(host.awvalid & host.wvalid):", "with m.If(host.awvalid):"),
            _mutant("address_taken.eq(0), data_taken.eq(0)", "address_taken.eq(0)"),
            _mutant("machine.awvalid.eq(inside & ~address_taken)", "machine.awvalid.eq(inside)"),
            _mutant("machine.wvalid.eq(inside & ~data_taken)", "machine.wvalid.eq(inside & ~address_taken)"),
            _mutant("with m.If(~inside | machine.bvalid):", "with m.If(machine.bvalid):"),
            _mutant("with m.If(host.bready):", "with m.If(1):"),
            _mutant("machine.arvalid.eq(inside)", "machine.arvalid.eq(1)"),
            _mutant("with m.Elif(machine.arready):", "with m.Else():"),
            _mutant("with m.If(~inside | machine.rvalid):", "with m.If(machine.rvalid):"),
            _mutant("with m.If(host.rready):", "with m.If(~host.rready):"),
            _mutant("address == BoardRegister.CONTROL) & word", "address != BoardRegister.CONTROL) & word"),
            _mutant("self.status,\n", "0,\n"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
