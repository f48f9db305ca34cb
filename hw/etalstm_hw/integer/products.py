"""The engine of integer products: what a channel does with the digits that are broadcast."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import LANE_ADDRESS_BITS, Opcode, Status
from etalstm_hw.integer.array import IntegerArray, Term
from etalstm_hw.integer.lane import lane_weights
from etalstm_hw.integer.pe import IntegerPE
from etalstm_hw.integer.sender import Sent
from etalstm_hw.integer.widths import WIDE
from etalstm_hw.stream import instruction_layout


class ProductEngine(wiring.Component):
    """Executes PRODUCT: multiplies the digits of arrays by weights, one a cycle, and keeps the sums.

    A tile is as many outputs as all lanes' PEs have sums. The digits of an array are sent once for each tile. A row of
    the weight memory has the weights of one element for one tile. The first error stops the engine until reset.
    ::

        digits ─► step ─│─► weights' address ─│─► array ─► sums ─► memory ─► read
                               (memory) ──────┘     └─── old ────┘

    Parameters
    ----------
    lanes, pes : int
        Lanes of a channel, and PEs of each.
    depth : int
        Pairs of sums that there are of each PE: a power of two.
    elements : int
        Of a sequence at most.
    weight_depth : int
        Rows of weights, a power of two.
    pe : callable
        Makes a PE with the ports and the times of :class:`IntegerPE`. ``ValueError`` if a size is none that is allowed.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.PRODUCT)))`
        Products, each taken with its last digit.
    digits : :py:`In(stream.Signature(Sent(elements)))`
    weights : :py:`In(memory.ReadPort.Signature(...))`
        Of the weights of all lanes.
    read : :py:`Out(memory.ReadPort.Signature(...))`
        A vector of sums, one of each lane. Its address is, from the top: number of the sum, 1 for high weights, PE. So
        the vectors of a tile of a sequence follow each other. The vector is there in the next cycle only.
    read_free : :py:`Out(1)`
        ``read`` may be enabled in this cycle.
    weights_free : :py:`In(1)`
        ``weights`` may be enabled in this cycle.
    drain : :py:`In(1)`
        Take no digit.
    done : :py:`Out(1)`
        With a product's last sum.
    issue, active, busy : :py:`Out(1)`
        A digit is multiplied; there is a product; anything is left to do.
    status : :py:`Out(Status)`
        ``IDLE``, or what was wrong with a product or where it reached.
    """

    def __init__(self, lanes, pes, *, depth, elements, weight_depth, pe=IntegerPE):
        for name, value in (("depth", depth), ("weight_depth", weight_depth)):
            if value < 1 or value & (value - 1):
                raise ValueError(f"{name} must be a power of two, got {value}")
        self._pes, self._depth, self._rows = pes, depth, weight_depth
        weights = data.ArrayLayout(lane_weights(pes), lanes)
        self._sums = data.ArrayLayout(WIDE, lanes)
        self._tag = data.StructLayout({"sum": range(depth), "end": 1})
        self._array = IntegerArray(lanes, pes, self._tag, pe=pe)
        weight_bits, sum_bits = (weight_depth - 1).bit_length(), (2 * pes * depth - 1).bit_length()
        super().__init__(
            {
                "i": In(stream.Signature(instruction_layout(Opcode.PRODUCT))),
                "digits": In(stream.Signature(Sent(elements))),
                "weights": In(memory.ReadPort.Signature(addr_width=weight_bits, shape=weights)),
                "read": Out(memory.ReadPort.Signature(addr_width=sum_bits, shape=self._sums)),
                "read_free": Out(1),
                "weights_free": In(1, init=1),
                "drain": In(1),
                **dict.fromkeys(("done", "issue", "active", "busy"), Out(1)),
                "status": Out(Status),
            }
        )

    def elaborate(self, platform):
        """Make steps; give them to the array; keep its sums."""
        m = Module()
        m.submodules.array = array = self._array
        step, valid = Signal(Term(self._tag), reset_less=True), Signal()
        # So wide that none wraps around before it is refused: a digit may be far beyond the last row of weights.
        bits = max(LANE_ADDRESS_BITS + 1, len(self.digits.p.element)) + 1
        row, number = (Signal(bits, name=name, reset_less=True) for name in ("row", "number"))
        leaves, beyond = Signal(), Signal()
        m.d.comb += [
            beyond.eq(valid & ((row >= self._rows) | (number >= self._depth))),
            array.terms.p.eq(step),
            array.terms.p.tag.sum.eq(number),
            array.terms.valid.eq(valid & ~beyond & self.weights_free),
            leaves.eq(~valid | (array.terms.ready & ~beyond & self.weights_free)),
            self.issue.eq(array.terms.valid & array.terms.ready),
            self.weights.addr.eq(row),
            self.weights.en.eq(self.issue),
            array.weights.eq(self.weights.data),
        ]
        misplaced = self._make_steps(m, step, valid, row, number, leaves)
        with m.If(self.status == Status.IDLE):
            with m.If(beyond):
                m.d.sync += self.status.eq(Status.BAD_ADDRESS)
            with m.Elif(misplaced):
                m.d.sync += self.status.eq(Status.BAD_FIELD)
        self._keep_sums(m, array)
        m.d.comb += [self.active.eq(self.i.valid | valid), self.busy.eq(self.active | array.busy)]
        return m

    def _make_steps(self, m, step, valid, row, number, leaves):
        """Find the weights of the next digit, and where its sum goes; tell if the product's begin where none do."""
        i, digit, taken = self.i.p, self.digits.p, Signal()
        begun = Signal()  # the instruction has had its first digit
        of_row, of_tile = (2 * self._pes // 4).bit_length() - 1, (2 * self._pes).bit_length() - 1
        tile, following = (Signal.like(row, name=name, reset_less=True) for name in ("tile", "following"))
        tile_now, number_now = (
            Mux(begun, register, field >> bits)
            for register, field, bits in ((tile, i.weights, of_row), (following, i.sums, of_tile))
        )
        misplaced = self.i.valid & (i.weights[:of_row].any() | i.sums[:of_tile].any())
        goes_on = leaves & ~misplaced & ~self.drain & (self.status == Status.IDLE)
        m.d.comb += [
            taken.eq(self.i.valid & self.digits.valid & goes_on),
            self.digits.ready.eq(self.i.valid & goes_on),
            self.i.ready.eq(taken & digit.final),
        ]
        with m.If(leaves):
            m.d.sync += valid.eq(taken)
        with m.If(taken):
            m.d.sync += [
                *(step[name].eq(digit[name]) for name in ("value", "lower", "ends", "last")),
                step.alone.eq(~i.adds),
                step.tag.end.eq(digit.final),
                row.eq(tile_now + digit.element),
                number.eq(number_now),
                begun.eq(~digit.final),
                following.eq(number_now + digit.last),
                tile.eq(Mux(digit.swept, tile_now + i.rows, tile_now)),
            ]
        return misplaced

    def _keep_sums(self, m, array):
        """A memory of sums; the array reads first."""
        old, complete = array.old, array.complete
        m.submodules.sums = sums = memory.Memory(shape=self._sums, depth=2 * self._pes * self._depth, init=[])
        write, read = sums.write_port(), sums.read_port()
        m.d.comb += [
            write.addr.eq(_address(complete)),
            write.data.eq(array.sums),
            write.en.eq(complete.valid),
            read.addr.eq(Mux(old.valid, _address(old), self.read.addr)),
            read.en.eq(old.valid | self.read.en),
            array.old_sums.eq(read.data),
            self.read.data.eq(read.data),
            self.read_free.eq(~old.valid),
            self.done.eq(complete.valid & complete.high & (complete.pe == self._pes - 1) & complete.tag.end),
        ]


def _address(sums):
    """Give where sums are."""
    return Cat(sums.pe, sums.high, sums.tag.sum)
