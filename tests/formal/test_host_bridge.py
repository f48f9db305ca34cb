"""HostBridge: the host's bursts, cut for the memory, and one answer for each."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Mux, Signal

from tests.formal.harness import Shadow, answers_reads, bench, patient, patient_input, payload
from tests.formal.prove import Change, Mutant, Proof, pdr

_AHEAD, _ADDRESS_BITS = 2, 6


def host_bridge(load):
    """Follow the host's reads and writes; the memory answers in order. Beats of 2 bytes become two of 1 byte.

    Bursts of up to 4 beats there and of up to 4 here, two outstanding: bursts are cut in two, limits are reached.
    """
    unit = load("etalstm_boards.host_bridge").HostBridge(16)
    m = bench(unit)
    host, port = unit.host, unit.port
    for channel in ("ar", "aw"):
        _addresses(m, host, port, channel)
    answers_reads(m, port, 2 * _AHEAD)

    # Read data: parts side by side, the worse of their answers, the last beat where the host's burst ends.
    moved, given = port.rvalid & port.rready, host.rvalid & host.rready
    second, low, worst, beat = Signal(), Signal(8), Signal(2), Signal(3)
    asked = _outstanding(m, host, "ar", given & host.rlast)
    number, length = asked.head[:4], asked.head[4:]
    patient_input(m, port.rvalid, port.rready, payload(port.rdata, port.rresp), name="r_port")
    patient(m, host.rvalid, host.rready, payload(host.rdata, host.rresp, host.rid, host.rlast), name="r_host")
    m.d.comb += [
        Assert(host.rvalid == (port.rvalid & second)),
        Assert(port.rready | (second & ~host.rready) | (asked.count == 0)),
        Assert(~(second & moved) | given),
        Assert(~host.rvalid | ((host.rdata == Cat(low, port.rdata)) & (host.rid == number))),
        Assert(~host.rvalid | (host.rresp == Mux(port.rresp > worst, port.rresp, worst))),
        Assert(~host.rvalid | (host.rlast == (beat == length))),
    ]
    with m.If(moved):
        m.d.sync += [second.eq(~second), low.eq(port.rdata), worst.eq(Mux(second, 0, port.rresp))]
    with m.If(given):
        m.d.sync += beat.eq(Mux(host.rlast, 0, beat + 1))

    # Write data: part by part; a burst of the memory ends with the host's, and after four beats.
    out, part, place = port.wvalid & port.wready, Signal(), Signal()
    patient_input(m, host.wvalid, host.wready, payload(host.wdata, host.wstrb, host.wlast), name="w_host")
    patient(m, port.wvalid, port.wready, payload(port.wdata, port.wstrb, port.wlast), name="w_port")
    m.d.comb += [
        Assert(port.wvalid == host.wvalid),
        Assert(host.wready == (port.wready & part)),
        Assert(~port.wvalid | (port.wdata == Mux(part, host.wdata[8:], host.wdata[:8]))),
        Assert(~port.wvalid | (port.wstrb == Mux(part, host.wstrb[1], host.wstrb[0]))),
        Assert(~port.wvalid | (port.wlast == (part & (host.wlast | place)))),
    ]
    with m.If(out):
        m.d.sync += part.eq(~part)
        with m.If(part):
            m.d.sync += place.eq(~place & ~host.wlast)

    # Answers to writes: one for all bursts that the host's became, the worst of theirs.
    came, told, bursts, worse = port.bvalid & port.bready, host.bvalid & host.bready, Signal(), Signal(2)
    writes, unanswered = _outstanding(m, host, "aw", told), Signal(4)
    m.d.sync += unanswered.eq(unanswered + (port.awvalid & port.awready) - came)
    patient_input(m, port.bvalid, port.bready, port.bresp, name="b_port")
    patient(m, host.bvalid, host.bready, payload(host.bresp, host.bid), name="b_host")
    final = bursts == (writes.head[4:] >= 2)
    m.d.comb += [
        Assume(~port.bvalid | (unanswered != 0)),
        Assert(unanswered <= 2 * _AHEAD),
        Assert(host.bvalid == (port.bvalid & final)),
        Assert(~(final & came) | told),
        Assert(
            ~host.bvalid | ((host.bid == writes.head[:4]) & (host.bresp == Mux(port.bresp > worse, port.bresp, worse)))
        ),
        Cover(told & bursts & (host.bresp == 2) & (port.bresp == 0)),
        Cover(given & host.rlast & (length == 3) & (asked.count == _AHEAD)),
    ]
    with m.If(came):
        m.d.sync += [bursts.eq(~final), worse.eq(Mux(final, 0, port.bresp))]
    return m


def _outstanding(m, host, channel, ends):
    """Give the host's bursts that are not answered: ID and length - 1."""
    valid, ready, number, length = (getattr(host, channel + name) for name in ("valid", "ready", "id", "len"))
    return Shadow(m, _AHEAD, push=valid & ready, value=payload(number, length[:2]), pop=ends, name=f"{channel}_host")


def _addresses(m, host, port, channel):
    """The memory's bursts join without a gap, have four beats until the host's end, and their addresses wait."""
    valid, ready, address, length = (getattr(host, channel + name) for name in ("valid", "ready", "addr", "len"))
    out, taken, where, size = (getattr(port, channel + name) for name in ("valid", "ready", "addr", "len"))
    patient_input(m, valid, ready, payload(address, length), name=channel)
    patient(m, out, taken, payload(where, size), name=f"{channel}_port")
    left, place = Signal(3, name=f"{channel}_left"), Signal(_ADDRESS_BITS, name=f"{channel}_place")
    m.d.comb += [
        Assume(length <= 3),
        Assert(out == (left != 0)),
        Assert(~ready | (left == 0)),
        Assert(~out | ((where == place) & (size == Mux(left >= 2, 3, 1)))),
        Assert((getattr(port, f"{channel}size") == 0) & (getattr(port, f"{channel}burst") == 1) | ~out),
    ]
    with m.If(out & taken):
        m.d.sync += [left.eq(Mux(left >= 2, left - 2, 0)), place.eq(place + size + 1)]
    with m.If(valid & ready):
        m.d.sync += [left.eq(length + 1), place.eq(Cat(0, address[1:_ADDRESS_BITS]))]


def _mutant(old, new, survives=""):
    return Mutant("etalstm_boards.host_bridge", old, new, survives)


PROOFS = [
    Proof(
        name="HostBridge",
        build=host_bridge,
        claim="bursts are cut without a gap, parts joined in order; one answer for each burst, its worst part's",
        method=pdr(),
        reach=20,
        small=(
            Change("etalstm_boards.axi3", "DATA_BITS = 256", "DATA_BITS = 8"),
            Change("etalstm_boards.axi3", "ADDRESS_BITS = 33", f"ADDRESS_BITS = {_ADDRESS_BITS}"),
            Change("etalstm_boards.host_bridge", "_AHEAD = 32", f"_AHEAD = {_AHEAD}"),
            Change("etalstm_hw.axi.axi", "BURST_BEATS = 16", "BURST_BEATS = 4"),
        ),
        mutants=(
            _mutant(
                'taken.eq(getattr(host, f"{name}valid") & (left == 0) & order.w_rdy)',
                'taken.eq(getattr(host, f"{name}valid") & (left == 0))',
            ),
            _mutant('ready").eq((left == 0) & order.w_rdy)', 'ready").eq(left == 0)'),
            _mutant("Mux(left > self._host_beats, self._host_beats, left)", "left"),
            _mutant("beats * self._parts - 1", "beats * self._parts"),
            _mutant("[low:] << low)", "[low:])"),
            _mutant("address.eq(address + beats * beat_bytes)", "address.eq(address + beats)"),
            _mutant("port.rvalid & complete & order.r_rdy", "port.rvalid & order.r_rdy"),
            _mutant("(~complete | host.rready)", "host.rready"),
            _mutant("_worse(worst, port.rresp)", "port.rresp"),
            _mutant("host.rid.eq(order.r_data[8:])", "host.rid.eq(order.r_data)"),
            _mutant("worst.eq(Mux(complete, 0, host.rresp))", "worst.eq(host.rresp)"),
            _mutant("beat.eq(Mux(host.rlast, 0, beat + 1))", "beat.eq(beat + 1)"),
            _mutant("host.wready.eq(port.wready & complete)", "host.wready.eq(port.wready)"),
            _mutant("complete & (host.wlast |", "(host.wlast |"),
            _mutant("beat.eq(Mux(port.wlast, 0, beat + 1))", "beat.eq(beat + 1)"),
            _mutant("final.eq(bursts == order.r_data[:8] >> shift)", "final.eq(1)"),
            _mutant("(~final | host.bready)", "1"),
            _mutant("bursts.eq(Mux(final, 0, bursts + 1))", "bursts.eq(bursts + 1)"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
