"""Where the instructions of an engine wait for each other's results."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import HEADER_BITS, OPCODE_BITS, TARGET_BITS
from etalstm_hw.stream import CHANNEL_ENGINES, Completed, Dispatched, Waits, unmet


class InstructionQueue(wiring.Component):
    """Holds instructions in order and lets each go when the engines that it names have completed enough.

    One instruction every two cycles; an instruction passes an empty queue in three cycles. The first one of the queue
    waits in a register behind the one at ``o``: when that is taken, the next is there in the next cycle, if its waits
    are met. The register is filled again only a cycle later, so that the FIFO behind it does not hang on ``o.ready``.
    A count that reaches what an instruction waits for releases it in the following cycle. Reset empties the queue.

    Parameters
    ----------
    shape : StructLayout
        Layout of an instruction; it starts with the header.
    depth : int
        Instructions that wait, besides the one at ``o``.
    reserve : int
        More that are taken after ``room`` has gone, for a sender who learns of it late.

    Members
    -------
    i : :py:`In(stream.Signature(Dispatched()))`
        Instructions; ``word`` may be longer than ``shape``.
    o : :py:`Out(stream.Signature(shape))`
        The same ones, ready to be executed. Of the header only the opcode is there, the other fields are 0.
    completed : :py:`In(Completed())`
        What the channel's engines have completed.
    stored_by_all : :py:`In(TARGET_BITS)`
        What every channel's STORE engine has completed, for instructions with ``everyone``.
    drain : :py:`In(1)`
        Lets nothing more go. A reset must follow: instructions may be dropped.
    waits : :py:`Out(4)`
        No instruction is at ``o``, and the first of the queue waits for: load, mac, vector, store (bits 0 to 3).
    room : :py:`Out(1)`
        Fewer than ``depth`` wait.
    busy : :py:`Out(1)`
        There is an instruction in the queue or at ``o``.
    """

    def __init__(self, shape, depth, reserve=0):
        self.shape, self.depth, self.reserve = shape, depth, reserve
        super().__init__(
            {
                "i": In(stream.Signature(Dispatched())),
                "o": Out(stream.Signature(shape)),
                "completed": In(Completed()),
                "stored_by_all": In(TARGET_BITS),
                "drain": In(1),
                "waits": Out(4),
                "room": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Compare the head's waits while the instruction before it executes."""
        m = Module()
        fields = self.shape.size - HEADER_BITS
        entry = data.StructLayout({"waits": Waits(), "opcode": OPCODE_BITS, "fields": fields})
        m.submodules.fifo = fifo = SyncFIFO(width=entry.size, depth=self.depth + self.reserve - 1)
        arriving, head = entry(fifo.w_data), Signal(entry, reset_less=True)
        there, came, kept = Signal(), Signal(), Signal()
        opcode, payload, valid = Signal(OPCODE_BITS, reset_less=True), Signal(fields, reset_less=True), Signal()

        completed, blocked = {name: self.completed[name] for name in CHANNEL_ENGINES}, Signal(4)
        completed["store"] = Mux(head.waits.everyone, self.stored_by_all, self.completed.store[:TARGET_BITS])
        m.d.comb += [
            blocked.eq(Cat(unmet(head.waits[name], count) for name, count in completed.items())),
            arriving.waits.eq(self.i.p.waits),
            arriving.opcode.eq(self.i.p.word),
            arriving.fields.eq(self.i.p.word[HEADER_BITS:]),
            fifo.w_en.eq(self.i.valid),
            fifo.r_en.eq(~there),
            self.i.ready.eq(fifo.w_rdy),
            self.o.p.eq(Cat(opcode, C(0, HEADER_BITS - OPCODE_BITS), payload)),
            self.o.valid.eq(valid & ~self.drain),
        ]

        # `o.ready` comes late, and only chooses. What may not leave is not valid, so the wide register hangs on nothing
        # else: not on `drain` either. Whether the head stays because of `o.ready` has a register of its own. `empty` is
        # the inverse of `valid`, for that register alone: else Yosys shares logic with the wide one, a level more.
        may_leave, empty = there & ~blocked.any(), Signal(init=1)
        with m.If(~valid | self.o.ready):
            m.d.sync += [valid.eq(may_leave), empty.eq(~may_leave), opcode.eq(head.opcode), payload.eq(head.fields)]
        m.d.sync += kept.eq(there & ~(empty | self.o.ready))
        m.d.sync += came.eq(Mux(there, blocked.any(), fifo.r_rdy))
        m.d.comb += there.eq(kept | came)
        with m.If(~there):
            m.d.sync += head.eq(fifo.r_data)
        with m.If(~valid & there):
            m.d.comb += self.waits.eq(blocked)
        level = fifo.level + there
        m.d.comb += [self.busy.eq(valid | there | fifo.r_rdy), self.room.eq(level < self.depth)]
        return m
