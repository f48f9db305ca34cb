"""Crossing: order, nothing lost or doubled, whichever clock ticks when."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.formal.harness import Scoreboard, free, patient, payload
from tests.formal.prove import Change, Mutant, Proof, pdr
from tests.formal.two_clocks import TwoClocks

_DEPTH = 4
_ROUNDS = 8  # of a reset: in each of them either clock ticks
_SHOWN = 3  # ticks of the reader's clock until a word is shown
_ROOM = 6  # ticks of the writer's clock until there is room again
_BEHIND = 2  # places of a queue that a writer may not see
_ADDRESSES = wiring.Signature({"awaddr": Out(1), "awlen": Out(1), "awvalid": Out(1), "awready": In(1)})
_RESPONSES = wiring.Signature({"bid": In(1), "bresp": In(1), "bvalid": In(1), "bready": Out(1)})


# Pointers that cross as binary numbers, of which several bits change at once.
_BINARY = """
import inspect
from amaranth.lib import fifo

_scope = dict(vars(fifo))
exec(inspect.getsource(fifo).replace("(produce_w_gry[-2]  !=", "(produce_w_gry[-2]  =="), _scope)
_scope["_gray_encode"] = _scope["_gray_decode"] = lambda value: value
AsyncFIFO = _scope["AsyncFIFO"]
"""


def _reset_together(m, clocks):
    """Assume that resets overlap: both domains are in reset for some rounds."""
    resets, ticks = Cat(clocks.resets.values()), Cat(clocks.ticks.values())
    ticked, rounds, enough = Signal(2), Signal(range(_ROUNDS + 1)), Signal()
    before, round_ends = Signal(2, init=3), Signal()
    m.d.comb += [
        enough.eq(rounds == _ROUNDS),
        round_ends.eq((ticked | ticks).all()),
        Assume((before & ~resets == 0) | enough),  # neither ends before
        Assume((~before & resets == 0) | ~enough),  # neither begins again before both have ended
    ]
    m.d.sync += before.eq(resets)
    with m.If(resets == 0):
        m.d.sync += [rounds.eq(0), ticked.eq(0)]
    with m.Elif(resets.all() & ~enough):
        m.d.sync += [ticked.eq(Mux(round_ends, 0, ticked | ticks)), rounds.eq(rounds + round_ends)]


def _soon(m, tick, waits, most, *, name):
    """Assert that something waits for so many ticks at most."""
    count = Signal(range(most + 2), name=name)
    m.d.comb += Assert(count <= most)
    with m.If(~waits):
        m.d.sync += count.eq(0)
    with m.Elif(tick):
        m.d.sync += count.eq(count + 1)


def _follow(m, clocks, channel, source, sink):
    """Follow what enters at `source`, a side with its clock's name, to where it leaves at `sink`."""
    (write, near), (read, far) = source, sink
    names = ["awaddr", "awlen"] if channel == "aw" else ["bid", "bresp"]
    valid, ready = near[f"{channel}valid"], near[f"{channel}ready"]
    shown, takes = far[f"{channel}valid"], far[f"{channel}ready"] & clocks.ticks[read]
    taken = payload(*(far[name] for name in names))
    board = Scoreboard(
        m,
        enters=valid & ready & clocks.ticks[write],
        expected=payload(*(near[name] for name in names)),
        leaves=shown & takes,
        actual=taken,
        capacity=_DEPTH,
        clear=clocks.resets[write],
        name=channel,
    )
    patient(m, shown, takes, taken, name=f"{channel}_out", unless=clocks.resets[write])
    awake = ~Cat(clocks.resets.values()).any()
    _soon(m, clocks.ticks[read], awake & (board.inside != 0) & ~shown, _SHOWN, name=f"{channel}_unseen")
    room = board.inside < _DEPTH - _BEHIND
    _soon(m, clocks.ticks[write], awake & room & ~ready, _ROOM, name=f"{channel}_full")
    m.d.comb += [
        Assume(~(valid & clocks.resets[write])),
        Assume(~(takes & clocks.resets[read])),
        Cover((board.inside == _DEPTH) & ~ready),
        Cover(shown & takes & board.chosen & (board.ahead == 0) & clocks.ticks[write]),
    ]


def _crossing(load, bus):
    """Follow a word of a bus of one channel; every channel has a FIFO of its own, made in the same lines.

    Words of 2 bits are copied. Queues of 4 words in place of 32: pointers are compared and wrap as those of any power
    of two do.

    Resets begin and end in any order, but both domains are in reset for 8 rounds, in each of which both clocks tick.
    The board holds its resets for 64 cycles of its slowest clock. Nothing is shown or taken in a domain that is in
    reset: the bus rules say so.
    """
    unit = load("etalstm_boards.crossing").Crossing(bus, near="near", far="far")
    m = Module()
    clocks = TwoClocks(m, "near", "far")
    clocks.add(m, unit)
    free(m, unit)
    _reset_together(m, clocks)
    manager, port = (
        (name, {member: getattr(side, member) for member in bus.members})
        for name, side in (("near", unit.manager), ("far", unit.port))
    )
    if bus == _ADDRESSES:
        _follow(m, clocks, "aw", manager, port)
    else:
        _follow(m, clocks, "b", port, manager)
    return m


def there(load):
    """Follow a word from the manager."""
    return _crossing(load, _ADDRESSES)


def back(load):
    """Follow a word to the manager."""
    return _crossing(load, _RESPONSES)


def _mutant(old, new, survives=""):
    return Mutant("etalstm_boards.crossing", old, new, survives)


_SMALL = (Change("etalstm_boards.crossing", "DEPTH = 32", f"DEPTH = {_DEPTH}"),)

PROOFS = [
    Proof(
        name="Crossing",
        build=there,
        claim="order, nothing lost or doubled, shown within 3 ticks; whichever clock ticks when, after any joint reset",
        method=pdr(),
        reach=24,
        small=_SMALL,
        mutants=(
            _mutant("from amaranth.lib.fifo import AsyncFIFO\n", _BINARY),
            _mutant("w_domain=write, r_domain=read", "w_domain=read, r_domain=write"),
            _mutant("w_domain=write, r_domain=read", "w_domain=write, r_domain=write"),
            _mutant("depth=DEPTH", "depth=DEPTH // 2"),
            _mutant("fifo.w_data.eq(Cat(words))", "fifo.w_data.eq(Cat(reversed(words)))"),
            _mutant('getattr(source, f"{channel}valid") & ready', "ready"),
            _mutant('getattr(source, f"{channel}valid") & ready', 'getattr(source, f"{channel}valid")'),
            _mutant("ready.eq(fifo.w_level < DEPTH - _BEHIND)", "ready.eq(1)"),
            _mutant("_BEHIND = 2", "_BEHIND = 1"),
            _mutant("_BEHIND = 2", "_BEHIND = 3"),
            _mutant(".eq(fifo.r_rdy)", ".eq(1)"),
            _mutant('fifo.r_en.eq(getattr(sink, f"{channel}ready"))', "fifo.r_en.eq(1)"),
            _mutant("in payload).eq(fifo.r_data)", "in reversed(payload)).eq(fifo.r_data)"),
        ),
    ),
    Proof(
        name="CrossingBack",
        build=back,
        claim="the same for what a subordinate answers",
        method=pdr(),
        reach=24,
        small=_SMALL,
        mutants=(_mutant("ready.eq(fifo.w_level < DEPTH - _BEHIND)", "ready.eq(1)"),),
    ),
]


def test_proof(task, prove):
    prove(task)
