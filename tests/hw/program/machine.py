"""A sequencer in Amaranth's simulator: a memory at one end, an engine that takes everything at the other."""

import random
from collections import deque

from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Module, ResetSignal
from amaranth.sim import Simulator

from etalstm_hw.contract import Status
from etalstm_hw.contract.image import image_of
from etalstm_hw.program.sequencer import Sequencer

PROGRAM = 1 << 14  # byte address
ADDRESS_BITS = 20


class _Machine(Elaboratable):
    def __init__(self, beat_bits):
        self.sequencer = Sequencer(beat_bits=beat_bits, address_bits=ADDRESS_BITS)

    def elaborate(self, platform):
        m = Module()
        m.domains.program = ClockDomain(local=True)
        m.d.comb += [
            ClockSignal("program").eq(ClockSignal()),
            ResetSignal("program").eq(ResetSignal() | ~self.sequencer.active),
        ]
        m.submodules.sequencer = self.sequencer
        return m


class Run:
    """A program's way through the sequencer, from start to status.

    Parameters
    ----------
    words : list of int
        The program.
    image : bytes
        What lies in memory instead of the program's bytes.
    length : int
        Instructions that the sequencer is told of; as many as there are words if not given.
    beat_bits, stall, latency, seed
        Of the memory, and of who takes instructions. Beats beyond the words are in error.
    program : int
        Byte address.
    watchdog : int
    in_flight : int
        Cycles of the drain during which memory accesses are in flight.
    period : int
        Instructions are taken in one cycle of so many.
    limit : int
        Cycles after which a run that has not ended is an error.

    Members
    -------
    taken : list of (cycle, Dispatched)
        Instructions that were handed on.
    status, engine, instruction : outcome
    beats, cycles, drained : int
        Beats that were read; cycles from start to the end, and of the drain.
    """

    def __init__(self, words, *, image=None, length=None, beat_bits=128, stall=0.0, latency=10, seed=3, program=PROGRAM,
                 watchdog=2000, in_flight=0, limit=20000, period=1):  # fmt: skip
        self._image = image_of(words) if image is None else image
        self._length = len(words) if length is None else length
        self._stall, self._latency, self._seed, self._program = stall, latency, seed, program
        self._watchdog, self._in_flight, self._limit, self._period = watchdog, in_flight, limit, period
        self._beat_bytes = beat_bits // 8
        self.taken, self.beats, self.cycles = [], 0, 0
        machine = _Machine(beat_bits)
        self._dut = machine.sequencer
        simulator = Simulator(machine)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self._memory, background=True)
        simulator.add_testbench(self._engine)
        simulator.run()

    async def _memory(self, ctx):
        """Answer in order, each transfer after the latency, beat by beat."""
        dut, rng, queue, cycle = self._dut, random.Random(self._seed), deque(), 0
        while True:
            ctx.set(dut.command.ready, len(queue) < 64 and rng.random() >= self._stall)
            offered = bool(queue) and queue[0][0] <= cycle and rng.random() >= self._stall
            ctx.set(dut.data.valid, offered)
            if offered:
                _, address, last = queue.popleft()
                beat = self._image[address - self._program :][: self._beat_bytes] if address >= self._program else b""
                ctx.set(dut.data.p, {"data": int.from_bytes(beat, "little"), "error": not beat, "last": last})
                self.beats += 1
            *_, asked, address, beats = await ctx.tick().sample(
                dut.command.valid & dut.command.ready, dut.command.p.address, dut.command.p.beats
            )
            for n in range(beats if asked else 0):
                queue.append((cycle + self._latency, address + n * self._beat_bytes, n == beats - 1))
            cycle += 1

    async def _engine(self, ctx):
        """Start the program, take what comes until it ends."""
        dut, rng = self._dut, random.Random(self._seed + 1)
        for name, value in {"program": self._program, "length": self._length, "watchdog": self._watchdog}.items():
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        drained = 0
        while ctx.get(dut.running):
            ctx.set(dut.o.ready, self.cycles % self._period == 0 and rng.random() >= self._stall)
            ctx.set(dut.dma_busy, drained < self._in_flight)
            *_, taken, payload, drain = await ctx.tick().sample(dut.o.valid & dut.o.ready, dut.o.p, dut.drain)
            if taken:
                self.taken.append((self.cycles, payload))
            drained += drain
            self.cycles += 1
            assert self.cycles < self._limit, f"seed {self._seed}: runs for {self._limit} cycles"
        self.status, self.instruction = Status(ctx.get(dut.status)), ctx.get(dut.instruction)
        self.engine, self.drained = ctx.get(dut.engine), drained
