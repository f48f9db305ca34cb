"""Joiner and Slice: each side's transfers, each to its own and in order, and neither side starves."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import Scoreboard, Shadow, bench, patient, patient_input, payload
from tests.formal.prove import Change, Mutant, Proof, pdr

_AHEAD = 3


def slice_of_bus(load):
    """Follow a transfer of each channel. Data of 8 bits: none of its bits matters more than another."""
    unit = load("etalstm_boards.join").Slice(load("etalstm_boards.axi3").AXI3())
    m = bench(unit)
    for channel in ("aw", "w", "ar", "r", "b"):
        source, sink = (unit.port, unit.manager) if channel in ("r", "b") else (unit.manager, unit.port)
        valid, ready = (getattr(source, channel + name) for name in ("valid", "ready"))
        shown, taken = (getattr(sink, channel + name) for name in ("valid", "ready"))
        patient(m, shown, taken, _payload(sink, channel), name=channel)
        board = Scoreboard(
            m,
            enters=valid & ready,
            expected=_payload(source, channel),
            leaves=shown & taken,
            actual=_payload(sink, channel),
            capacity=2,
            name=f"{channel}_board",
        )
        m.d.comb += [
            Assert(shown == (board.inside != 0)),
            Assert(ready == (board.inside != 2)),
            Cover((board.inside == 2) & taken & valid),
        ]
    return m


def joiner(load):
    """Follow side 0, which stands for both: the solver chooses what the other does, and when.

    Data of 8 bits, addresses of 2; three writes ahead, the fewest with which the FIFO is not full at once.
    """
    unit = load("etalstm_boards.join").Joiner()
    m = bench(unit)
    port, sides = unit.port, list(unit.sides)
    one, other = sides
    for n, side in enumerate(sides):
        for channel in ("ar", "aw", "w"):
            valid, ready = (getattr(side, channel + name) for name in ("valid", "ready"))
            patient_input(m, valid, ready, _payload(side, channel), name=f"{channel}{n}")
        m.d.comb += [Assume(~side.arid[-1]), Assume(~side.awid[-1])]
    for channel in ("ar", "aw", "w"):
        valid, ready = (getattr(port, channel + name) for name in ("valid", "ready"))
        patient(m, valid, ready, _payload(port, channel), name=channel)
    for channel in ("ar", "aw"):
        _addresses(m, unit, channel)

    # Data: of the side whose address is the oldest without them.
    chosen = [side.awvalid & side.awready for side in sides]
    enters = [side.wvalid & side.wready for side in sides]
    order = Shadow(
        m, _AHEAD, push=chosen[0] | chosen[1], value=chosen[1], name="order",
        pop=(enters[0] & one.wlast) | (enters[1] & other.wlast),
    )  # fmt: skip
    m.d.comb += [
        Assert(~(enters[0] & enters[1])),
        Assert(~enters[0] | ((order.count != 0) & ~order.head)),
        Assert(~enters[1] | ((order.count != 0) & order.head)),
        Cover((order.count == _AHEAD) & enters[0] & one.wlast),
        Cover(enters[1] & other.wlast & order.head & (order.count == _AHEAD)),
    ]
    data = Mux(enters[1], _payload(other, "w"), _payload(one, "w"))
    Scoreboard(
        m, enters=enters[0] | enters[1], expected=data, leaves=port.wvalid & port.wready, actual=_payload(port, "w"),
        capacity=2, name="w_board",
    )  # fmt: skip

    # Answers: each to the side that its ID names, in the order in which they came.
    for channel in ("r", "b"):
        _answers(m, unit, channel)
    return m


def _payload(bus, channel):
    names = {
        "r": ("id", "data", "resp", "last"),
        "b": ("id", "resp"),
        "w": ("data", "strb", "last"),
    }.get(channel, ("id", "addr", "len", "size", "burst"))
    return payload(*(getattr(bus, channel + name) for name in names))


def _addresses(m, unit, channel):
    """Those that enter leave in order, the highest bit of the ID says from where; nobody is passed over twice."""
    port, sides = unit.port, list(unit.sides)
    taken = [getattr(side, f"{channel}valid") & getattr(side, f"{channel}ready") for side in sides]
    plain = [payload(*(getattr(bus, channel + name) for name in ("addr", "len", "size", "burst"))) for bus in sides]
    number = [getattr(side, f"{channel}id")[:-1] for side in sides]
    expected = payload(Mux(taken[1], number[1], number[0]), taken[1], Mux(taken[1], plain[1], plain[0]))
    m.d.comb += Assert(~(taken[0] & taken[1]))
    Scoreboard(
        m,
        enters=taken[0] | taken[1],
        expected=expected,
        leaves=getattr(port, f"{channel}valid") & getattr(port, f"{channel}ready"),
        actual=_payload(port, channel),
        capacity=2,
        name=f"{channel}_board",
    )
    passed = Signal(name=f"{channel}_passed")
    waits = getattr(sides[0], f"{channel}valid") & ~taken[0]
    m.d.comb += Assert(~(passed & waits & taken[1]))
    m.d.sync += passed.eq(waits & (passed | taken[1]))


def _answers(m, unit, channel):
    port, one, other = unit.port, *unit.sides
    valid, ready = (getattr(port, channel + name) for name in ("valid", "ready"))
    patient_input(m, valid, ready, _payload(port, channel), name=f"{channel}_port")
    shown = [getattr(side, f"{channel}valid") for side in (one, other)]
    gone = [getattr(side, f"{channel}valid") & getattr(side, f"{channel}ready") for side in (one, other)]
    for n, side in enumerate((one, other)):
        patient(m, shown[n], getattr(side, f"{channel}ready"), _payload(side, channel), name=f"{channel}{n}")
    number = getattr(port, f"{channel}id")
    rest = [name for name in ("data", "resp", "last") if hasattr(port, channel + name)]

    def value(bus, ident, side):
        return payload(ident, side, *(getattr(bus, channel + name) for name in rest))

    sides = [value(side, getattr(side, f"{channel}id"), n) for n, side in enumerate((one, other))]
    Scoreboard(
        m,
        enters=valid & ready,
        expected=value(port, payload(number[:-1], 0), number[-1]),
        leaves=gone[0] | gone[1],
        actual=Mux(gone[1], sides[1], sides[0]),
        capacity=2,
        name=f"{channel}_board",
    )
    m.d.comb += [Assert(~(shown[0] & shown[1])), Cover(gone[0] & valid & number[-1])]


_SMALL = (
    Change("etalstm_boards.axi3", "ADDRESS_BITS = 33", "ADDRESS_BITS = 2"),
    Change("etalstm_boards.axi3", "DATA_BITS = 256", "DATA_BITS = 8"),
    Change("etalstm_boards.axi3", "ID_BITS = 6", "ID_BITS = 2"),
    Change("etalstm_boards.join", "AHEAD = 32", f"AHEAD = {_AHEAD}"),
)


def _mutant(old, new, survives=""):
    return Mutant("etalstm_boards.join", old, new, survives)


PROOFS = [
    Proof(
        name="Slice",
        build=slice_of_bus,
        claim="order, nothing lost or doubled, both ways; two transfers fit in, and only a full one takes none",
        method=pdr(),
        reach=8,
        small=_SMALL,
        mutants=(
            _mutant("moves.eq(~valid | ready)", "moves.eq(ready)"),
            _mutant("moves.eq(~valid | ready)", "moves.eq(1)"),
            _mutant("elastic.o.ready.eq(moves)", "elastic.o.ready.eq(1)"),
            _mutant("valid.eq(elastic.o.valid)", "valid.eq(1)"),
            _mutant("register.eq(elastic.o.p)", "register.eq(given)"),
        ),
    ),
    Proof(
        name="Joiner",
        build=joiner,
        claim="each address goes out once, in turn, with its side; data in their order; answers to their side",
        method=pdr(),
        reach=14,
        small=_SMALL,
        mutants=(
            _mutant("Mux(offers.all(), ~last, offers[1])", "offers[1]"),
            _mutant("Mux(offers.all(), ~last, offers[1])", "~last"),
            _mutant("offers.any() & room", "offers.any()"),
            _mutant("order.w_level < AHEAD - 1", "order.w_level < AHEAD"),
            _mutant("[:SIDE_ID_BITS], choice)),", "[:SIDE_ID_BITS], ~choice)),"),
            _mutant("taken & (choice == n)", "taken"),
            _mutant("last.eq(choice)", "last.eq(last)"),
            _mutant("order.w_data.eq(choice)", "order.w_data.eq(0)"),
            _mutant('self._chosen("w", "valid", choice) & order.r_rdy', 'self._chosen("w", "valid", choice)'),
            _mutant("port.wready & order.r_rdy & (choice == n)", "port.wready & order.r_rdy"),
            _mutant("port.wvalid & port.wready & port.wlast", "port.wvalid & port.wready"),
            _mutant('self._chosen(channel, "ready", choice)', 'self._chosen(channel, "ready", ~choice)'),
            _mutant("valid & (choice == n)", "valid"),
            _mutant("number[:SIDE_ID_BITS]", "number"),
        ),
    ),
]


def test_proof(task, prove):
    prove(task)
