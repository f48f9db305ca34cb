"""The MAC engine: what a channel's PEs do with every broadcast scalar."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import LANE_ADDRESS_BITS, Opcode, Start, Status
from etalstm_hw.stream import Scalar, instruction_layout


class MACStep(data.StructLayout):
    """One MAC of all lanes.

    Members
    -------
    weight, sums, bias : addresses; one bit more than a memory can have, so that none wraps around
    value : the scalar
    begins : the sum starts here, from the bias if ``biased``
    biased : there is a bias
    narrow, high : the weight is a half of its word, and it is the high one
    empty : there is no product
    backward : of the backward pass
    mac : there is a MAC at all; without, the step only carries ``end``
    end : the last step of an instruction
    """

    def __init__(self, format):
        address = LANE_ADDRESS_BITS + 1
        flags = {name: 1 for name in ("begins", "biased", "empty", "backward", "narrow", "high", "mac", "end")}
        super().__init__({"weight": address, "sums": address, "bias": address, "value": format.width} | flags)


class MACEngine(wiring.Component):
    """Turns scalars into one MAC for each tile, one a cycle. Of narrow weights each vector is read for two tiles.

    A scalar's first MAC follows the last one of the scalar before it in the next cycle, and so across instructions,
    when scalar and instruction are there. A MAC whose partial sum is younger than ``latency + 1`` cycles is held back;
    sums that come round after ``latency + 1`` MACs never stall. A step waits in a register for its slot of the PEs,
    so the hazard is decided on registered addresses. Reset forgets everything.

    Parameters
    ----------
    format : FloatFormat
        Format of a scalar.
    latency : int
        Cycles from the issue of a MAC (its addresses are at the memories) to its sum at the memory's write port.
    weight_depth, queue_depth, bias_depth : int
        Vectors of the memories.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.MAC)))`
        Instructions, taken with the last of their scalars.
    scalars : :py:`In(stream.Signature(Scalar(format)))`
        The scalars.
    pes_free, sums_free : :py:`In(1)`
        The step may use the PEs, and the read port of the partial sums is free, in this cycle.
    step : :py:`Out(MACStep(format))`
        The next MAC.
    issue : :py:`Out(1)`
        It takes place in this cycle.
    uses_sums : :py:`Out(1)`
        It would read a partial sum.
    waiting, hazard, ready : :py:`Out(1)`
        A MAC is at ``step``; its partial sum is still in the adder; it lacks nothing but the PEs.
    write, write_address : :py:`Out(1)`, :py:`Out(range(queue_depth))`
        The sum of ``latency`` cycles ago belongs here.
    done : :py:`Out(1)`
        With an instruction's last write.
    active, busy : :py:`Out(1)`
        An instruction has MACs to issue; anything is left to do.
    status : :py:`Out(Status)`
        ``IDLE``, or sticky until reset: ``BAD_FIELD`` from a scalar whose CAST has other ``tiles`` than the
        instruction, ``BAD_ADDRESS`` from the first MAC outside a memory. The engine stands still then.
    """

    def __init__(self, format, latency, *, weight_depth, queue_depth, bias_depth):
        self.format, self.latency = format, latency
        self.depths = {"weight": weight_depth, "sums": queue_depth, "bias": bias_depth}
        flags = ("issue", "uses_sums", "waiting", "hazard", "ready", "write", "done", "active", "busy")
        super().__init__(
            {name: Out(1) for name in flags}
            | {
                "i": In(stream.Signature(instruction_layout(Opcode.MAC))),
                "scalars": In(stream.Signature(Scalar(format))),
                "pes_free": In(1),
                "sums_free": In(1),
                "step": Out(MACStep(format)),
                "write_address": Out(range(queue_depth)),
                "status": Out(Status),
            }
        )

    def elaborate(self, platform):
        """Make steps; issue them; follow their sums through the PEs."""
        m = Module()
        step, valid = Signal(MACStep(self.format), reset_less=True), Signal()
        leaves = Signal()
        self._make_steps(m, step, valid, leaves)

        beyond = {name: step[name] >= depth for name, depth in self.depths.items()}
        bad = Signal()
        m.d.comb += [
            self.step.eq(step),
            self.waiting.eq(valid & step.mac),
            self.uses_sums.eq(~step.begins),
            bad.eq(
                self.waiting
                & (beyond["sums"] | (~step.empty & beyond["weight"]) | (step.begins & step.biased & beyond["bias"]))
            ),
            self.ready.eq(
                self.waiting & (~self.uses_sums | (self.sums_free & ~self.hazard)) & ~bad & (self.status == Status.IDLE)
            ),
            self.issue.eq(self.ready & self.pes_free),
            leaves.eq(self.issue | ~step.mac),
            self.active.eq(self.i.valid | valid),
        ]
        with m.If(bad & (self.status == Status.IDLE)):
            m.d.sync += self.status.eq(Status.BAD_ADDRESS)
        self._follow_sums(m, step, valid)
        return m

    def _make_steps(self, m, step, valid, leaves):
        """Combine instruction and scalar into steps, each ready before the one before it has left."""
        i, scalar = self.i.p, self.scalars.p
        tile = Signal.like(i.tiles)
        following = Signal(MACStep(self.format))
        running = {name: Signal(LANE_ADDRESS_BITS + 1, name=f"next_{name}", reset_less=True) for name in self.depths}
        first = {"weight": i.weights + scalar.outer, "sums": i.sums + scalar.inner, "bias": i.bias}
        for name, start in first.items():
            m.d.comb += following[name].eq(Mux(tile == 0, start, running[name]))

        last_tile, advance = Signal(), Signal()
        m.d.comb += [
            last_tile.eq((tile + 1 == i.tiles) | scalar.null),
            following.value.eq(scalar.value),
            following.begins.eq(scalar.begins),
            following.biased.eq(i.start == Start.BIAS),
            following.empty.eq(scalar.empty),
            following.backward.eq(i.backward),
            following.narrow.eq(scalar.narrow),
            following.high.eq(scalar.narrow & tile[0]),
            following.mac.eq(~scalar.null),
            following.end.eq(scalar.last & last_tile),
            advance.eq(self.i.valid & self.scalars.valid & (~valid | leaves) & (self.status == Status.IDLE)),
            self.scalars.ready.eq(advance & last_tile),
            self.i.ready.eq(advance & following.end),
        ]
        with m.If(~valid | leaves):
            m.d.sync += valid.eq(advance & (following.mac | following.end))
        with m.If(advance):
            m.d.sync += [step.eq(following), tile.eq(Mux(last_tile, 0, tile + 1))]
            # A narrow vector is read for two tiles.
            ahead = {"weight": ~following.narrow | following.high, "sums": 1, "bias": 1}
            m.d.sync += [running[name].eq(following[name] + ahead[name]) for name in self.depths]
        with m.If(self.i.valid & self.scalars.valid & (i.tiles != scalar.tiles) & (self.status == Status.IDLE)):
            m.d.comb += advance.eq(0)
            m.d.sync += self.status.eq(Status.BAD_FIELD)

    def _follow_sums(self, m, step, valid):
        """Keep the addresses of sums in flight, youngest first, and compare the step's with them."""
        address = step.sums[: len(self.write_address)]
        stages = range(self.latency)
        flying, ends = Signal(self.latency), Signal(self.latency)
        addresses = [Signal(len(address), name=f"flying_{n}", reset_less=True) for n in stages]
        m.d.sync += [
            flying.eq(Cat(self.issue, flying[:-1])),
            ends.eq(Cat(valid & step.end & (self.issue | ~step.mac), ends[:-1])),
            *(younger.eq(older) for younger, older in zip(addresses, [address, *addresses], strict=False)),
        ]
        m.d.comb += [
            self.hazard.eq(Cat(flying[n] & (addresses[n] == address) for n in stages).any()),
            self.write.eq(flying[-1]),
            self.write_address.eq(addresses[-1]),
            self.done.eq(ends[-1]),
            self.busy.eq(self.active | flying.any() | ends.any()),
        ]
