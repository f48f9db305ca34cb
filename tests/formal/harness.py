"""What specifications have in common: free inputs, streams that keep their promise, and a scoreboard."""

from itertools import pairwise

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In


def bench(unit) -> Module:
    """Begin a specification: the unit, its inputs free, and a reset that may come in any cycle.

    Registers without a reset keep what they have through it. So the unit begins with anything in them.
    """
    m = Module()
    m.submodules.unit = unit
    free(m, unit)
    return m


def free(m: Module, unit) -> None:
    """Let the inputs of a component take any value in every cycle."""
    for _, member, value in unit.signature.flatten(unit):
        if member.flow is In:
            m.d.comb += Value.cast(value).eq(AnySeq(len(Value.cast(value))))


def bits(value) -> Value:
    """Give a value of any shape as plain bits."""
    return Value.cast(value)


def before(m: Module, value, *, name="before") -> Signal:
    """Give the value that something had a cycle before; 0 after a reset."""
    register = Signal(len(bits(value)), name=name)
    m.d.sync += register.eq(value)
    return register


def after_reset(m: Module) -> Signal:
    """Tell that there was a cycle since the reset."""
    passed = Signal(name="after_reset")
    m.d.sync += passed.eq(1)
    return passed


def constant(m: Module, *values) -> None:
    """Let inputs that :func:`free` drives keep one value for ever."""
    for value in values:
        m.d.comb += Assume(bits(value) == AnyConst(len(bits(value))))


def _waits(m, valid, ready, payload, name):
    """Give what holds if the offer of the cycle before still stands, and its payload."""
    waited, held = Signal(name=f"{name}_waited"), Signal(len(bits(payload)), name=f"{name}_held", reset_less=True)
    m.d.sync += [waited.eq(valid & ~ready), held.eq(payload)]
    return ~waited | (valid & (bits(payload) == held))


def patient(m: Module, valid, ready, payload, *, name, unless=0) -> None:
    """Assert that an offer stands, unchanged, until it is taken, or until ``unless``."""
    m.d.comb += Assert(_waits(m, valid, ready | unless, payload, name) | unless)


def patient_input(m: Module, valid, ready, payload, *, name) -> None:
    """Assume the same of an input."""
    m.d.comb += Assume(_waits(m, valid, ready, payload, name))


def stream_in(m: Module, port: stream.Interface, *, name: str) -> Value:
    """Assume that an input stream's offers stand; give when one is taken."""
    patient_input(m, port.valid, port.ready, port.payload, name=name)
    return port.valid & port.ready


def stream_out(m: Module, port: stream.Interface, *, name: str, unless=0) -> Value:
    """Assert that an output stream's offers stand; give when one is taken."""
    patient(m, port.valid, port.ready, port.payload, name=name, unless=unless)
    return port.valid & port.ready


class Scoreboard:
    """Follows one element, whichever the solver picks, from where it enters to where it leaves.

    Nothing is lost, doubled or overtaken, and each comes out with what is expected of it, if that holds for every
    choice. The number of elements inside is bounded, so the proof is finite. ``amount`` elements enter at once;
    ``offset`` is the one of them that ``expected`` is about.

    Members
    -------
    inside : elements that have entered and not left
    chosen : one is followed
    ahead : elements that must leave before it
    """

    def __init__(
        self, m: Module, *, enters, expected, leaves, actual, capacity: int, amount=1, offset=0, clear=0, name="board"
    ):
        self.inside = inside = Signal(range(capacity + 2), name=f"{name}_inside")
        self.ahead = ahead = Signal(range(capacity + 2), name=f"{name}_ahead")
        self.chosen = chosen = Signal(name=f"{name}_chosen")
        wanted = Signal(len(bits(expected)), name=f"{name}_wanted", reset_less=True)
        pick = Signal(name=f"{name}_pick")
        m.d.comb += [
            pick.eq(AnySeq(1)),
            Assert(inside <= capacity),
            Assert(~leaves | (inside != 0) | clear),
            Assert(~(leaves & chosen & (ahead == 0)) | (bits(actual) == wanted) | clear),
            Assert(~chosen | (ahead < inside)),
        ]
        m.d.sync += inside.eq(inside + Mux(enters, amount, 0) - leaves)
        with m.If(chosen & leaves):
            m.d.sync += [ahead.eq(ahead - 1), chosen.eq(ahead != 0)]
        with m.If(~chosen & enters & pick):
            m.d.sync += [chosen.eq(1), ahead.eq(inside - leaves + offset), wanted.eq(expected)]
        with m.If(clear):
            m.d.sync += [inside.eq(0), chosen.eq(0)]


class Shadow:
    """A queue of registers, as plain as can be: what a specification remembers, in order.

    Members
    -------
    head : the oldest value
    count : how many there are
    """

    def __init__(self, m: Module, depth: int, *, push, value, pop, clear=0, name="shadow"):
        slots = [Signal(len(bits(value)), name=f"{name}{n}", reset_less=True) for n in range(depth)]
        self.head, self.count = slots[0], Signal(range(depth + 1), name=f"{name}_count")
        m.d.comb += [Assert(~push | (self.count != depth) | pop), Assert(~pop | (self.count != 0) | clear)]
        m.d.sync += self.count.eq(self.count + push - pop)
        with m.If(pop):
            m.d.sync += [slot.eq(following) for slot, following in pairwise(slots)]
        for n, slot in enumerate(slots):
            with m.If(push & (self.count - pop == n)):
                m.d.sync += slot.eq(value)
        with m.If(clear):
            m.d.sync += self.count.eq(0)


def walk(m: Module, depth: int, *, push, beats, rest, step, count, clear, name):
    """Go through the beats of transfers, ``count`` at each ``step``.

    Gives how far it is in the oldest one, its beats, the rest of what is known of it, and the queue of transfers.
    """
    at, ends, width = Signal(len(beats) + 1, name=f"{name}_at"), Signal(name=f"{name}_ends"), len(beats)
    queue = Shadow(m, depth, push=push, value=payload(beats, rest), pop=step & ends, clear=clear, name=name)
    m.d.comb += ends.eq(at + count == queue.head[:width])
    with m.If(clear):
        m.d.sync += at.eq(0)
    with m.Elif(step):
        m.d.sync += at.eq(Mux(ends, 0, at + count))
    return at, queue.head[:width], queue.head[width:], queue


def answers_reads(m: Module, port, depth: int, *, name="memory") -> Shadow:
    """Assume a memory that answers each read in order, beat by beat, whenever it likes; give what it has been asked."""
    accepted = port.arvalid & port.arready
    place, taken = Signal(len(port.arlen), name=f"{name}_place"), port.rvalid & port.rready
    asked = Shadow(m, depth, push=accepted, value=port.arlen, pop=taken & port.rlast, name=name)
    m.d.comb += [
        Assume(~port.rvalid | (asked.count != 0)),
        Assume(~port.rvalid | (port.rlast == (place == asked.head))),
    ]
    with m.If(taken):
        m.d.sync += place.eq(Mux(port.rlast, 0, place + 1))
    return asked


def offered(m: Module, valid, ready, *, name) -> Signal:
    """Tell the first cycle of each offer."""
    fresh, new = Signal(init=1, name=f"{name}_fresh"), Signal(name=f"{name}_new")
    m.d.sync += fresh.eq(~valid | ready)
    m.d.comb += new.eq(valid & fresh)
    return new


def payload(*values) -> Value:
    """Put values side by side, whatever their shapes."""
    return Cat(bits(value) for value in values)
