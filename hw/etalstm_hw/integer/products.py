"""The engine of integer products: what a channel does with the digits that are broadcast."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import COUNT_BITS, LANE_ADDRESS_BITS
from etalstm_hw.integer.array import IntegerArray, Term
from etalstm_hw.integer.lane import lane_weights
from etalstm_hw.integer.pe import IntegerPE
from etalstm_hw.integer.sender import Sent
from etalstm_hw.integer.widths import WIDE


class Product(data.StructLayout):
    """The product of an array of integers and some weights.

    Members
    -------
    weights, rows : address of the first tile's weights, and rows of weights that each tile has
    sums : number of the first sum. Those of the array's sequences follow each other, then come those of the next tile
    adds : the sums are added to what is there
    """

    def __init__(self):
        super().__init__({"weights": LANE_ADDRESS_BITS, "rows": COUNT_BITS, "sums": LANE_ADDRESS_BITS, "adds": 1})


class ProductEngine(wiring.Component):
    """Multiplies the digits of arrays by weights, one a cycle, and keeps the sums.

    A tile is as many outputs as all lanes' PEs have sums. The digits of an array are sent once for each tile. A row of
    the weight memory has the weights of one element for one tile.
    ::

        digits ─► step ─│─► weights' address ─│─► array ─► sums ─► memory ─► read
                               (memory) ──────┘     └─── old ────┘

    Parameters
    ----------
    lanes, pes : int
        Lanes of a channel, and PEs of each.
    depth : int
        Pairs of sums that there are of each PE: a power of two. Numbers of sums are modulo `depth`.
    elements : int
        Of a sequence at most.
    weight_depth : int
        Rows of weights.
    pe : callable
        Makes a PE with the ports and the times of :class:`IntegerPE`. ``ValueError`` if a size is none that is allowed.

    Members
    -------
    i : :py:`In(stream.Signature(Product()))`
        Products, each taken with its last digit.
    digits : :py:`In(stream.Signature(Sent(elements)))`
    weights : :py:`In(memory.ReadPort.Signature(...))`
        Of the weights of all lanes.
    read : :py:`Out(memory.ReadPort.Signature(...))`
        A vector of sums, one of each lane. Its address is, from the top: number of the sum, 1 for high weights, PE. The
        vector is there in the next cycle only.
    read_free : :py:`Out(1)`
        ``read`` may be enabled in this cycle.
    done : :py:`Out(1)`
        With a product's last sum.
    busy : :py:`Out(1)`
    """

    def __init__(self, lanes, pes, *, depth, elements, weight_depth, pe=IntegerPE):
        if depth < 1 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two, got {depth}")
        self._pes, self._depth = pes, depth
        weights = data.ArrayLayout(lane_weights(pes), lanes)
        self._sums = data.ArrayLayout(WIDE, lanes)
        self._tag = data.StructLayout({"sum": range(depth), "end": 1})
        self._array = IntegerArray(lanes, pes, self._tag, pe=pe)
        weight_bits, sum_bits = (weight_depth - 1).bit_length(), (2 * pes * depth - 1).bit_length()
        super().__init__(
            {
                "i": In(stream.Signature(Product())),
                "digits": In(stream.Signature(Sent(elements))),
                "weights": In(memory.ReadPort.Signature(addr_width=weight_bits, shape=weights)),
                "read": Out(memory.ReadPort.Signature(addr_width=sum_bits, shape=self._sums)),
                "read_free": Out(1),
                "done": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Make steps; give them to the array; keep its sums."""
        m = Module()
        m.submodules.array = array = self._array
        step, valid = Signal(Term(self._tag), reset_less=True), Signal()
        address = Signal.like(self.weights.addr, reset_less=True)
        leaves = Signal()
        m.d.comb += [
            array.terms.p.eq(step),
            array.terms.valid.eq(valid),
            leaves.eq(~valid | array.terms.ready),
            self.weights.addr.eq(address),
            self.weights.en.eq(valid & array.terms.ready),
            array.weights.eq(self.weights.data),
        ]
        self._make_steps(m, step, valid, address, leaves)
        self._keep_sums(m, array)
        m.d.comb += self.busy.eq(self.i.valid | valid | array.busy)
        return m

    def _make_steps(self, m, step, valid, address, leaves):
        """Find the weights of the next digit, and where its sum goes."""
        i, digit, taken = self.i.p, self.digits.p, Signal()
        begun = Signal()  # the instruction has had its first digit
        tile, number = Signal.like(i.weights, reset_less=True), Signal.like(i.sums, reset_less=True)
        tile_now, number_now = Mux(begun, tile, i.weights), Mux(begun, number, i.sums)
        m.d.comb += [
            taken.eq(self.i.valid & self.digits.valid & leaves),
            self.digits.ready.eq(self.i.valid & leaves),
            self.i.ready.eq(taken & digit.final),
        ]
        with m.If(leaves):
            m.d.sync += valid.eq(taken)
        with m.If(taken):
            m.d.sync += [
                *(step[name].eq(digit[name]) for name in ("value", "lower", "ends", "last")),
                step.alone.eq(~i.adds),
                step.tag.sum.eq(number_now),
                step.tag.end.eq(digit.final),
                address.eq(tile_now + digit.element),
                begun.eq(~digit.final),
                number.eq(number_now + digit.last),
                tile.eq(Mux(digit.swept, tile_now + i.rows, tile_now)),
            ]

    def _keep_sums(self, m, array):
        """Two memories, of the sums of low weights and of high ones; the array reads first."""
        old, complete, pe_bits = array.old, array.complete, (self._pes - 1).bit_length()
        pe, half, number = self.read.addr[:pe_bits], self.read.addr[pe_bits], self.read.addr[pe_bits + 1 :]
        high = Signal()
        with m.If(self.read.en):
            m.d.sync += high.eq(half)
        words = []
        for name in ("low", "high"):
            m.submodules[f"{name}_sums"] = sums = memory.Memory(
                shape=self._sums, depth=self._pes * self._depth, init=[]
            )
            write, read = sums.write_port(), sums.read_port()
            m.d.comb += [
                write.addr.eq(Cat(complete.pe, complete.tag.sum)),
                write.data.eq(getattr(array, name)),
                write.en.eq(complete.valid),
                read.addr.eq(Mux(old.valid, Cat(old.pe, old.tag.sum), Cat(pe, number))),
                read.en.eq(old.valid | self.read.en),
                getattr(array, f"old_{name}").eq(read.data),
            ]
            words.append(read.data)
        m.d.comb += [
            self.read.data.eq(Mux(high, words[1], words[0])),
            self.read_free.eq(~old.valid),
            self.done.eq(complete.valid & (complete.pe == self._pes - 1) & complete.tag.end),
        ]
