"""ReadMerge: two readers on a port that answers in order."""

from amaranth.hdl import Assert, Cover, Signal

from tests.formal.harness import Scoreboard, Shadow, answers_reads, bench, patient, patient_input, payload
from tests.formal.prove import Mutant, Proof, pdr

_OUTSTANDING = 2


def read_merge(load):
    """Follow the addresses of both readers, and which of them each beat belongs to.

    Two reads in flight: the limit is reached and the queue of owners wraps. Addresses and data are copied.
    """
    unit = load("etalstm_hw.axi.merge").ReadMerge(2, 8, outstanding=_OUTSTANDING)
    m = bench(unit)
    port, readers = unit.port, unit.readers
    for n, reader in enumerate(readers):
        patient_input(m, reader.arvalid, reader.arready, _address(reader), name=f"ar{n}")
    patient(m, port.arvalid, port.arready, _address(port), name="ar")
    asked = answers_reads(m, port, _OUTSTANDING)
    begins = [reader.arvalid & reader.arready for reader in readers]
    arrives = port.rvalid & port.rready
    Scoreboard(
        m,
        enters=begins[0] | begins[1],
        expected=_choose(m, begins[1], _address(readers[1]), _address(readers[0])),
        leaves=port.arvalid & port.arready,
        actual=_address(port),
        capacity=1,
    )
    owners = Shadow(
        m, _OUTSTANDING, push=begins[0] | begins[1], value=begins[1], pop=arrives & port.rlast, name="owners"
    )
    m.d.comb += [
        Assert(~(begins[0] & begins[1])),
        Assert(~(readers[1].arvalid & begins[0])),  # the second reader's come first
        Cover((owners.count == _OUTSTANDING) & (asked.count == 2) & (owners.head == 1)),
        Cover(begins[0] & arrives & port.rlast),
        Cover(port.arvalid & port.arready & begins[1]),
    ]
    for n, reader in enumerate(readers):
        mine = owners.head == n
        m.d.comb += [
            Assert(reader.rvalid == (port.rvalid & mine)),
            Assert(~reader.rvalid | (port.rready == reader.rready)),
            Assert(payload(reader.rdata, reader.rresp, reader.rlast) == payload(port.rdata, port.rresp, port.rlast)),
        ]
    return m


def _address(bus):
    return payload(bus.araddr, bus.arlen, bus.arsize, bus.arburst)


def _choose(m, condition, one, other):
    chosen = Signal(len(one), name="address")
    with m.If(condition):
        m.d.comb += chosen.eq(one)
    with m.Else():
        m.d.comb += chosen.eq(other)
    return chosen


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.axi.merge", old, new, survives)


PROOFS = [
    Proof(
        name="ReadMerge",
        build=read_merge,
        claim="each address goes out once and waits; each beat goes to the reader that asked for it",
        method=pdr(),
        reach=12,
        quick=True,
        mutants=(
            _mutant("choice.eq(readers[1].arvalid)", "choice.eq(~readers[0].arvalid)"),
            _mutant("order.w_rdy & (~port.arvalid | port.arready)", "order.w_rdy"),
            _mutant("order.w_rdy & (~port.arvalid | port.arready)", "(~port.arvalid | port.arready)"),
            _mutant("order.w_data.eq(choice)", "order.w_data.eq(~choice)"),
            _mutant("free & ~choice", "free"),
            _mutant("readers[1].arready.eq(free)", "readers[1].arready.eq(1)"),
            _mutant("for reader in readers[::-1]", "for reader in readers"),
            _mutant("(order.r_data == n)", "(order.r_data != n)"),
            _mutant("Array(reader.rready for reader in readers)", "Array(reader.rready for reader in readers[::-1])"),
            _mutant("port.rvalid & port.rready & port.rlast", "port.rvalid & port.rready"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
