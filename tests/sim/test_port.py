"""The memory model's port is as unkind as AXI allows, and no unkinder."""

import numpy as np
import pytest

from tests.sim.manager import BEAT_BYTES, Manager

BEATS, BURSTS = 4, 200
LIMIT_CYCLES = 60 * BURSTS * BEATS


@pytest.fixture
def manage():
    opened = []

    def make(**options):
        opened.append(Manager(**options))
        return opened[-1]

    yield make
    for manager in opened:
        manager.close()


def write_bursts(manager, *, data_wait_for_address=False):
    """Write BURSTS bursts, addresses and data each as fast as they are accepted.

    Gives for each burst the cycles in which its address, its first and its last beat were accepted, and the first beat
    was first shown; fewer where the memory did not accept them in LIMIT_CYCLES.
    """
    shown = manager.shown
    shown.bready = True
    shown.write.length = BEATS - 1
    addresses, beats, shows, answers = [], [], [], 0
    while answers < BURSTS and manager.cycle < LIMIT_CYCLES:
        shown.write.valid = len(addresses) < BURSTS
        shown.write.address = len(addresses) % 256 * BEATS * BEAT_BYTES
        allowed = len(addresses) if data_wait_for_address else BURSTS
        shown.wvalid = len(beats) < allowed * BEATS
        manager.word, shown.wlast = len(beats), len(beats) % BEATS == BEATS - 1
        if shown.wvalid and len(beats) % BEATS == 0 and len(shows) == len(beats) // BEATS:
            shows.append(manager.cycle)
        cycle, happened = manager.cycle, manager.step()
        addresses += [cycle] * happened["aw"]
        beats += [cycle] * happened["w"]
        answers += happened["b"]
    assert manager.breach == ""
    return addresses, beats[::BEATS], beats[BEATS - 1 :: BEATS], shows


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_takes_addresses_and_data_in_every_order(manage, seed):
    manager = manage(stall=0.5, seed=seed)
    address, first, last, shown = (np.array(cycles) for cycles in write_bursts(manager))
    assert len(address) == len(last) == BURSTS
    orders = {
        "all data before the address": last < address,
        "some data before the address": (first < address) & (address < last),
        "the address before any data": address < first,
        "the address while data are shown": (address < first) & (shown < address),
    }
    seen = {name: int(found.sum()) for name, found in orders.items()}
    assert min(seen.values()) > BURSTS // 20, seen
    np.testing.assert_array_equal(manager.memory.view(np.uint32)[: BURSTS * BEATS], np.arange(BURSTS * BEATS))


def test_a_manager_that_waits_for_awready_gets_stuck(manage):
    """AXI lets a memory wait for WVALID before AWREADY; a manager that shows no data until then waits for ever."""
    addresses, *_ = write_bursts(manage(stall=0.5), data_wait_for_address=True)
    assert len(addresses) < BURSTS


def test_without_stalls_the_address_comes_first(manage):
    address, first, _, _ = (np.array(cycles) for cycles in write_bursts(manage()))
    assert (address < first).all()
