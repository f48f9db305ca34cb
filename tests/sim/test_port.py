"""The memory model's port is as unkind as AXI allows, and no unkinder."""

import ctypes
from itertools import pairwise

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


def read_bursts(manager, ids):
    """Read BURSTS bursts, with the ids in turn; give the id of every beat, once its data were compared."""
    manager.memory.view(np.uint32)[:] = np.arange(manager.memory.size // 4)
    shown, addresses, order = manager.shown, [], []
    shown.rready, shown.read.length = True, BEATS - 1
    expected = [[] for _ in range(ids)]
    while len(order) < BURSTS * BEATS and manager.cycle < LIMIT_CYCLES:
        shown.read.valid = len(addresses) < BURSTS
        shown.read.id = len(addresses) % ids
        shown.read.address = len(addresses) % 256 * BEATS * BEAT_BYTES
        driven = manager.driven
        word = ctypes.c_uint32.from_address(driven.data).value if driven.rvalid else None
        happened = manager.step()
        if happened["ar"]:
            first = shown.read.address // 4
            expected[shown.read.id] += range(first, first + BEATS)
            addresses.append(first)
        if happened["r"]:
            assert word == expected[driven.rid].pop(0), f"beat {len(order)}, id {driven.rid}"
            order.append(driven.rid)
    assert manager.breach == ""
    return order


def switches_within_bursts(order, ids):
    """Count the beats that follow a beat of another id whose burst has not ended."""
    done, count = [0] * ids, 0
    for before, now in pairwise(order):
        done[before] += 1
        count += now != before and done[before] % BEATS != 0
    return count


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("reorder", [False, True])
def test_interleaves_reads_of_different_ids(manage, stall, reorder):
    order = read_bursts(manage(stall=stall, reorder=reorder, ids=3), 3)
    assert len(order) == BURSTS * BEATS
    switches = switches_within_bursts(order, 3)
    assert switches > BURSTS if reorder else switches == 0, switches


def test_answers_writes_of_different_ids_out_of_order(manage):
    manager = manage(stall=0.5, reorder=True, ids=2)
    shown, asked, answered = manager.shown, [], []
    shown.bready, shown.wlast = True, True
    beats = 0
    while len(answered) < BURSTS and manager.cycle < LIMIT_CYCLES:
        shown.write.valid = len(asked) < BURSTS
        shown.write.id = len(asked) % 2
        shown.write.address = len(asked) * BEAT_BYTES
        shown.wvalid, manager.word = beats < BURSTS, beats
        response, happened = manager.driven.bid, manager.step()
        asked += [shown.write.id] * happened["aw"]
        beats += happened["w"]
        answered += [response] * happened["b"]
    assert manager.breach == ""
    assert len(answered) == BURSTS
    assert sum(one != other for one, other in zip(asked, answered, strict=True)) > BURSTS // 20
    np.testing.assert_array_equal(manager.memory.view(np.uint32)[:BURSTS], np.arange(BURSTS))


def test_takes_data_of_several_bursts_before_their_addresses(manage):
    manager = manage(stall=0.5)
    address, _, last, _ = (np.array(cycles) for cycles in write_bursts(manager))
    ahead = [int((last < cycle).sum()) - n for n, cycle in enumerate(address)]
    assert max(ahead) > 1, f"at most the data of {max(ahead)} bursts before their addresses"


def test_takes_an_address_long_before_its_data(manage):
    address, first, _, shown = (np.array(cycles) for cycles in write_bursts(manage(stall=0.5)))
    assert (first - np.maximum(address, shown)).max() > 20


def test_ready_comes_before_valid_and_only_after_it(manage):
    manager = manage(stall=0.5)
    ready = []
    for _ in range(4000):
        ready.append(manager.driven.arready)
        manager.step()
    assert 0.1 < np.mean(ready) < 0.6, np.mean(ready)
    waited = []
    for _ in range(400):
        before = manager.cycle
        manager.shown.read.valid = True
        while not manager.step()["ar"]:
            pass
        waited.append(manager.cycle - before)
        manager.shown.read.valid, manager.shown.rready = False, True
        while not manager.step()["r"]:
            pass
    assert manager.breach == ""
    assert waited.count(1) > 40, "READY before VALID"
    assert waited.count(2) > 40, "READY after VALID"
    assert max(waited) > 30, "READY long after VALID"


def test_responses_come_at_once_and_very_late(manage):
    manager = manage(stall=0.5)
    shown, begun, waits = manager.shown, 0, []
    shown.bready, shown.wlast = True, True
    while len(waits) < BURSTS and manager.cycle < 200 * BURSTS:
        shown.write.valid, shown.wvalid = True, True
        taken = {"aw": False, "w": False}
        while not all(taken.values()):
            shown.write.valid, shown.wvalid = not taken["aw"], not taken["w"]
            happened = manager.step()
            taken = {name: taken[name] or happened[name] for name in taken}
            begun = manager.cycle
        shown.write.valid = shown.wvalid = False
        while not manager.step()["b"]:
            pass
        waits.append(manager.cycle - begun)
    assert manager.breach == ""
    assert min(waits) <= 2 and max(waits) > 200, (min(waits), max(waits))
