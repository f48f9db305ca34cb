"""cocotb's memory takes addresses and data in every order."""

from pathlib import Path

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from etalstm_sim.benches.axi_memory import AxiMemory
from etalstm_sim.benches.bench import run_bench
from etalstm_sim.benches.unkindness import pauses
from tests.sim.wire import BEATS, BURSTS, Wire, begin

LIMIT_CYCLES = 60 * BEATS * BURSTS


class Handshakes:
    """Counts the cycles of the handshakes of a channel while the manager shows one thing after the other."""

    def __init__(self, dut, channel):
        self.cycles = []
        self._valid, self._ready = (getattr(dut, f"manager__{channel}{end}") for end in ("valid", "ready"))

    def count(self, cycle):
        """Call at every clock edge; says whether there was one."""
        happened = self._valid.value == 1 and self._ready.value == 1
        self.cycles += [cycle] * happened
        return happened


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def takes_addresses_and_data_in_every_order(dut):
    await begin(dut)
    memory = AxiMemory(dut, ["port0"], 1 << 16, stall=0.5, seed=3)
    dut.manager__bready.value = 1
    address, data, answer = (Handshakes(dut, channel) for channel in ("aw", "w", "b"))
    for cycle in range(LIMIT_CYCLES):
        dut.manager__awvalid.value = len(address.cycles) < BURSTS
        dut.manager__awaddr.value = 4 * BEATS * len(address.cycles)
        dut.manager__wvalid.value = len(data.cycles) < BURSTS * BEATS
        dut.manager__wdata.value = len(data.cycles)
        dut.manager__wlast.value = len(data.cycles) % BEATS == BEATS - 1
        await RisingEdge(dut.clk)
        for each in (address, data, answer):
            each.count(cycle)
        if len(answer.cycles) == BURSTS:
            break
    assert len(answer.cycles) == BURSTS, f"{len(address.cycles)} addresses, {len(data.cycles)} beats"
    words = memory.bytes[: 4 * BURSTS * BEATS].view(np.uint32)
    np.testing.assert_array_equal(words, np.arange(BURSTS * BEATS))
    first, last = np.array(data.cycles[::BEATS]), np.array(data.cycles[BEATS - 1 :: BEATS])
    addressed = np.array(address.cycles)
    assert (addressed < first).sum() > BURSTS // 20
    assert (last < addressed).sum() > BURSTS // 20


def test_pauses_come_in_every_mood():
    """In 4000 cycles nobody waits, then somebody: only then does a late channel stop pausing."""
    share = {}
    for waiting in (False, True):
        pattern = pauses(0.5, "moods", lambda waiting=waiting: waiting)
        share[waiting] = np.mean([next(pattern) for _ in range(4000)])
    assert 0.1 < share[False] - share[True] < 0.5, share
    drawn = np.array([next(pattern) for _ in range(4000)])
    runs = np.diff(np.flatnonzero(np.diff(drawn)))
    assert max(runs) > 30, "neither open nor shut for long"
    assert np.count_nonzero(runs == 1) > 100, "never steady"


def test_the_memory_is_unkind(tmp_path):
    run_bench(Wire(), "wire", Path(__file__), tmp_path)


def test_without_stalls_nothing_is_a_pause():
    pattern = pauses(0.0, "none")
    assert not any(next(pattern) for _ in range(2000))
