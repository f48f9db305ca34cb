"""Where the instructions of an engine wait for each other's results."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from etalstm.hw.contract import WAIT_BITS
from etalstm.hw.stream import Completed


class InstructionQueue(wiring.Component):
    """Holds instructions in order and lets each go when the engines that it names have completed enough.

    One instruction per cycle; an instruction passes an empty queue in three cycles. The first one of the queue waits
    behind the one at ``o``: when that is taken, the next is there in the next cycle, if its waits are met. A count
    that reaches what an instruction waits for releases it in the following cycle. Reset empties the queue.

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
    i : :py:`In(stream.Signature(shape))`
        Instructions.
    o : :py:`Out(stream.Signature(shape))`
        The same ones, ready to be executed.
    completed : :py:`In(Completed())`
        What the channel's engines have completed.
    stored_by_all : :py:`In(16)`
        What every channel's STORE engine has completed, for instructions with ``everyone``.
    hold : :py:`In(1)`
        Lets nothing more go.
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
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "completed": In(Completed()),
                "stored_by_all": In(WAIT_BITS),
                "hold": In(1),
                "waits": Out(4),
                "room": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Compare the head's waits while the instruction before it executes."""
        m = Module()
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=self.shape.size, depth=self.depth + self.reserve)
        head = self.shape(fifo.r_data)
        payload, valid = Signal(self.shape, reset_less=True), Signal()

        stored, unmet = Signal(WAIT_BITS), Signal(4)
        m.d.comb += stored.eq(self.completed.store)
        with m.If(head.everyone):
            m.d.comb += stored.eq(self.stored_by_all)
        m.d.comb += [
            unmet.eq(
                Cat(
                    self.completed.load < head.wait_load,
                    self.completed.mac < head.wait_mac,
                    self.completed.vector < head.wait_vector,
                    stored < head.wait_store,
                )
            ),
            fifo.w_data.eq(self.i.p.as_value()),
            fifo.w_en.eq(self.i.valid),
            self.i.ready.eq(fifo.w_rdy),
            self.o.p.eq(payload),
            self.o.valid.eq(valid & ~self.hold),
        ]

        with m.If(~valid | (self.o.valid & self.o.ready)):
            leaves = fifo.r_rdy & ~unmet.any()
            m.d.comb += fifo.r_en.eq(leaves & ~self.hold)
            m.d.sync += valid.eq(leaves & ~self.hold)
            with m.If(leaves):
                m.d.sync += payload.eq(head)
        with m.If(~valid & fifo.r_rdy):
            m.d.comb += self.waits.eq(unmet)
        m.d.comb += [self.busy.eq(valid | (fifo.level != 0)), self.room.eq(fifo.level < self.depth)]
        return m
