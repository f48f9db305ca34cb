"""The memory behind the benches of the engines: cocotbext-axi's, with latency, stalls and errors."""

import os

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiRam

from etalstm_sim.benches.unkindness import make_unkind
from etalstm_sim.benches.watch import rules_of, start_watch

LANES = int(os.environ["LANES"])
BEAT_WORDS = int(os.environ["BEAT_WORDS"])
CHANNEL = int(os.environ["CHANNEL"])
CHANNELS = int(os.environ["CHANNELS"])
ADDRESS_BITS = int(os.environ["ADDRESS_BITS"])
BEAT_BYTES = 4 * BEAT_WORDS
VECTOR_BEATS = LANES // BEAT_WORDS
WINDOW_BASE = 0x10000
WINDOW_BYTES = 0x8000
WINDOW_BEATS = WINDOW_BYTES // BEAT_BYTES
MEMORY_BYTES = 0x80000


def window(channel):
    """Byte address of a channel's window."""
    return WINDOW_BASE + channel * WINDOW_BYTES


class FaultyRam(AxiRam):
    """An AxiRam with random stalls, extra latency and addresses that answer with an error.

    A port that breaks AXI, on either side, fails the test, see :mod:`etalstm_sim.benches.watch`.

    Parameters
    ----------
    dut : the design, with a port `port0`
    stall : float
        Probability of a stall in a cycle, of each channel.
    latency : int
        Cycles between a read's address and its data, and a write's data and its response, at least.
    errors : dict
        Response code of byte addresses.
    """

    def __init__(self, dut, stall=0.0, latency=0, errors=None):
        super().__init__(AxiBus.from_prefix(dut, "port0_"), dut.clk, dut.rst, size=MEMORY_BYTES)
        self.errors = errors or {}
        reads, writes = self.read_if, self.write_if
        for channel in (reads.ar_channel, reads.r_channel, writes.aw_channel, writes.w_channel, writes.b_channel):
            channel.log.setLevel("WARNING")
            channel.queue_occupancy_limit = 256
        start_watch(dut, "port0", rules_of(dut, "port0"))
        make_unkind(dut, "port0", reads, writes, stall=stall, seed=0, clock=dut.clk, reset=dut.rst)
        reads.log.setLevel("ERROR")
        writes.log.setLevel("ERROR")
        self.code = 0
        self._fail(reads, "_read")
        self._fail(writes, "_write")
        for channel, response in ((reads.r_channel, "rresp"), (writes.b_channel, "bresp")):
            self._delay(dut, channel, response, latency)

    def _fail(self, interface, name):
        inner = getattr(interface, name)

        async def access(address, argument):
            if address in self.errors:
                self.code = self.errors[address]
                raise OSError(f"{address:#x}")
            return await inner(address, argument)

        setattr(interface, name, access)

    def _delay(self, dut, channel, response, latency):
        """Give errors their code, and everything its latency."""
        send, waiting = channel.send, []
        cycle = 0

        async def later(message):
            if getattr(message, response):
                setattr(message, response, self.code)
            waiting.append((cycle + latency, message))

        async def forward():
            nonlocal cycle
            while True:
                await RisingEdge(dut.clk)
                cycle += 1
                while waiting and waiting[0][0] <= cycle:
                    await send(waiting.pop(0)[1])

        channel.send = later
        cocotb.start_soon(forward())


async def begin(dut):
    """Start the clock, set the windows, reset."""
    cocotb.start_soon(Clock(dut.clk, 4, "ns").start())
    for handle in dut:
        if handle._name in ("load_i__valid", "load_drain", "load_write__ready", "store_i__valid", "store_drain",
                            "store_read__ready"):  # fmt: skip
            handle.value = 0
    dut.windows.value = WINDOW_BASE | WINDOW_BYTES << ADDRESS_BITS | WINDOW_BYTES << 2 * ADDRESS_BITS
    await reset(dut)


async def reset(dut):
    """Two cycles of reset."""
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)


class Trace:
    """Pulses of an engine, observed in every cycle."""

    def __init__(self, dut, prefix):
        self.done, self.beats, self.cycle = [], [], 0
        self.on_done = lambda number: None
        self._dut = dut
        self._signals = {name: getattr(dut, f"{prefix}_{name}") for name in ("done", "beats", "kind", "busy", "status")}
        cocotb.start_soon(self._watch())

    async def _watch(self):
        signals = self._signals
        while True:
            await RisingEdge(self._dut.clk)
            self.cycle += 1
            if signals["done"].value == 1:
                self.on_done(len(self.done))
                self.done.append(self.cycle)
            if signals["beats"].value == 1:
                self.beats.append(int(signals["kind"].value))

    @property
    def status(self):
        """The engine's status."""
        return int(self._signals["status"].value)

    async def idle(self, limit=3000):
        """Wait until the engine is idle for 3 cycles."""
        quiet = 0
        for _ in range(limit):
            await RisingEdge(self._dut.clk)
            quiet = 0 if self._signals["busy"].value == 1 else quiet + 1
            if quiet == 3:
                return
        raise AssertionError(f"still busy after {limit} cycles")


async def send(dut, name, words):
    """Drive a stream of integers."""
    valid, ready, payload = (getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload"))
    for word in words:
        payload.value = word & (1 << len(payload)) - 1
        valid.value = 1
        await RisingEdge(dut.clk)
        while ready.value != 1:
            await RisingEdge(dut.clk)
    valid.value = 0
