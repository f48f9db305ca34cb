"""PortArbiter: every manager's addresses, data and answers, each to its own and in order, and no manager starves."""

from amaranth.hdl import Assert, Assume, Cover, Signal

from tests.formal.harness import Scoreboard, Shadow, bench, patient, patient_input, payload
from tests.formal.prove import Mutant, Proof, pdr

_MANAGERS, _OUTSTANDING, _AHEAD = 3, 2, 3


def port_arbiter(load):
    """Follow manager 0, which stands for all: the solver chooses what the others do, and when.

    Three managers: the fewest in which one can be passed over. Two reads, three writes ahead: both limits are reached.
    """
    unit = load("etalstm_hw.axi.arbiter").PortArbiter(2, 8, _MANAGERS, outstanding=_OUTSTANDING, ahead=_AHEAD)
    m = bench(unit)
    port, managers = unit.port, unit.managers
    one = managers[0]
    for n, manager in enumerate(managers):
        for channel in ("ar", "aw"):
            valid, ready = getattr(manager, f"{channel}valid"), getattr(manager, f"{channel}ready")
            patient_input(m, valid, ready, _address(manager, channel), name=f"{channel}{n}")
        patient_input(m, manager.wvalid, manager.wready, payload(manager.wdata, manager.wlast), name=f"w{n}")
    for channel in ("ar", "aw"):
        valid, ready, own = (getattr(port, f"{channel}{name}") for name in ("valid", "ready", "id"))
        patient(m, valid, ready, payload(_address(port, channel), own), name=channel)
        mine = getattr(one, f"{channel}valid") & getattr(one, f"{channel}ready")
        addresses = {"expected": _address(one, channel), "actual": _address(port, channel)}
        Scoreboard(m, enters=mine, leaves=valid & ready & (own == 0), capacity=1, name=channel, **addresses)
        _turns(m, managers, channel)
        m.d.comb += Assert(~valid | (own < _MANAGERS))

    # Data: of the manager whose address is the oldest without them.
    chosen = [manager.awvalid & manager.awready for manager in managers]
    number = Signal(2)
    m.d.comb += number.eq(chosen[1] | chosen[2] << 1)
    ends = port.wvalid & port.wready & port.wlast
    order = Shadow(m, _AHEAD, push=sum(chosen)[0], value=number, pop=ends, name="order")
    owner = (order.count != 0) & (order.head == 0)
    m.d.comb += [
        Assert(sum(chosen) <= 1),
        Assert(~owner | ((port.wvalid == one.wvalid) & (one.wready == port.wready))),
        Assert(~(owner & port.wvalid) | (_data(port) == _data(one))),
        Assert(owner | ~one.wready),
        Assert((order.count != 0) | ~port.wvalid),
    ]

    # Answers: the reads in flight are bounded; each answer goes to the manager that its ID names.
    begun, ended = sum(manager.arvalid & manager.arready for manager in managers), port.rvalid & port.rlast
    reads = Signal(3)
    m.d.sync += reads.eq(reads + begun - ended)
    m.d.comb += [
        Assume(~port.rvalid | (reads != 0)),
        Assert(reads <= _OUTSTANDING),
        Assert(port.rready & port.bready),
        Assert(one.rvalid == (port.rvalid & (port.rid == 0))),
        Assert(one.bvalid == (port.bvalid & (port.bid == 0))),
        Assert(~one.rvalid | (payload(one.rdata, one.rresp, one.rlast) == payload(port.rdata, port.rresp, port.rlast))),
        Assert(one.bresp == port.bresp),
        Cover((reads == _OUTSTANDING) & one.arvalid & ~one.arready),
        Cover((order.count == _AHEAD) & owner & ends),
        Cover(port.awvalid & (port.awid == 2)),
    ]
    return m


def _address(bus, channel):
    return payload(*(getattr(bus, channel + name) for name in ("addr", "len", "size", "burst")))


def _data(bus):
    return payload(bus.wdata, bus.wstrb, bus.wlast)


def _turns(m, managers, channel):
    """Manager 0 is passed over by each other manager once at most."""
    passed = Signal(3, name=f"{channel}_passed")
    valid, ready = ([getattr(manager, channel + name) for manager in managers] for name in ("valid", "ready"))
    taken = [one & other for one, other in zip(valid, ready, strict=True)]
    m.d.comb += Assert(passed <= _MANAGERS - 1)
    with m.If(~valid[0] | taken[0]):
        m.d.sync += passed.eq(0)
    with m.Elif(taken[1] | taken[2]):
        m.d.sync += passed.eq(passed + 1)


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.axi.arbiter", old, new, survives)


PROOFS = [
    Proof(
        name="PortArbiter",
        build=port_arbiter,
        claim="each address goes out once and waits, in turn; data in the order of addresses; answers to their manager",
        method=pdr(),
        reach=12,
        mutants=(
            _mutant("reads != self._outstanding", "reads != 3"),
            _mutant("(port.rvalid & port.rready & port.rlast)", "(port.rvalid & port.rready)"),
            _mutant('"aw", later.w_rdy)', '"aw", 1)'),
            _mutant("wanted.any() & enable & (~valid | ready)", "wanted.any() & enable"),
            _mutant("candidate = (previous + distance) % count", "candidate = (count - distance) % count"),
            _mutant("reversed(range(1, count + 1))", "reversed(range(1, count))"),
            _mutant("last.eq(choice), getattr", "getattr"),
            _mutant('ready").eq(taken)', 'ready").eq(wanted[n])'),
            _mutant('for name in ("addr", "len", "size", "burst"):', 'for name in ("addr", "size", "burst"):'),
            _mutant("with m.If(there), m.Switch(owner):", "with m.Switch(owner):"),
            _mutant("(there & ~ends) | later.r_rdy", "there & ~ends"),
            _mutant("(there & ~ends) | later.r_rdy", "there | later.r_rdy"),
            _mutant("there.eq(later.r_rdy | taken)", "there.eq(taken)"),
            _mutant("Mux(later.r_rdy, later.r_data, choice)", "choice"),
            _mutant("port.wvalid & port.wready & port.wlast)", "port.wvalid & port.wready)"),
            _mutant("& (number == n)", "& (number != n)"),
            _mutant('getattr(port, f"{channel}ready").eq(1)', 'getattr(port, f"{channel}ready").eq(number[0])'),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
