"""Where windows and programs come to lie, in memories behind ports and in one memory."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.shape import TrainingShape
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.plan.memory.memory_map import find, place
from etalstm_hw.config import preset
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

DENSE, SPREAD = preset("test"), replace(preset("test"), port_bytes=1 << 20)
PAGE = 4096
SHAPE = TrainingShape(NetworkShape(3, 5), 2, 2)


def test_windows_lie_behind_each_other_in_one_memory():
    placement = place(DENSE, 3 * PAGE, 100)
    assert [placement.window(n).start for n in range(2)] == [0, 3 * PAGE]
    assert (placement.programs, placement.end) == (6 * PAGE, 7 * PAGE)


@pytest.mark.parametrize("name", ["vcu128", "u280"])
def test_windows_of_the_boards_lie_behind_the_ports_of_their_channels(name):
    config = preset(name)
    for size in (PAGE, config.local_window_bytes):
        placement = place(config, size, 1, memory_bytes=8 << 30)
        for channel in range(config.channels):
            window = placement.window(channel)
            own = range(channel // 2 << 28, (channel // 2 + 1) << 28)
            assert window[0] in own and window[-1] in own, f"channel {channel}: {window}"
        assert placement.programs == 20 << 28  # behind the sequencer's port


@pytest.mark.parametrize("memory_bytes", [8 << 30, None])
def test_programs_lie_behind_the_last_window_where_the_ports_have_all_the_memory(memory_bytes):
    config = preset("vcu128-int8")
    size = config.local_window_bytes - 2 * PAGE
    placement = place(config, size, PAGE + 1, memory_bytes=memory_bytes)
    assert [placement.window(channel).start for channel in range(32)] == [n << 28 for n in range(32)]
    assert placement.programs == placement.window(31).stop == (32 << 28) - 2 * PAGE
    larger = place(config, size, 2 * PAGE + 1, memory_bytes=memory_bytes)
    assert (larger.stride, larger.programs) == (size, 32 * size)


def test_sessions_share_ports_that_have_all_the_memory():
    config, taken = preset("vcu128-int8"), []
    for number in range(3):
        placement = place(config, 1 << 20, PAGE, memory_bytes=8 << 30, taken=taken)
        assert (placement.base, placement.stride) == (number << 20, 1 << 28)
        assert placement.programs == (8 << 30) - (number + 1) * PAGE
        taken += placement.parts


def test_windows_larger_than_a_share_lie_behind_each_other():
    placement = place(SPREAD, (1 << 20) + PAGE, 1)
    assert (placement.stride, placement.programs) == ((1 << 20) + PAGE, (2 << 20) + 2 * PAGE)


def test_a_memory_too_small_for_all_shares_is_filled_from_its_start():
    placement = place(SPREAD, PAGE, PAGE, memory_bytes=1 << 20)
    assert (placement.base, placement.stride, placement.programs) == (0, PAGE, 2 * PAGE)


@pytest.mark.parametrize("config", [DENSE, SPREAD], ids=["one memory", "behind ports"])
def test_nothing_lies_where_something_is(config):
    placed = []
    for size in (PAGE, 1 << 19, 5 * PAGE, 1 << 20, 1 << 19, PAGE):
        taken = [part for placement in placed for part in placement.parts]
        placed.append(place(config, size, 3 * size, memory_bytes=1 << 25, taken=taken))
    parts = sorted((part for placement in placed for part in placement.parts), key=lambda part: part.start)
    for one, other in pairwise(parts):
        assert one.stop <= other.start, f"{one} and {other} overlap"
    if config is SPREAD:
        assert [placement.base for placement in placed[:3]] == [0, PAGE, PAGE + (1 << 19)]
        dense = [placement.stride == placement.window_bytes for placement in placed]
        assert dense == [False, False, False, True, True, False]  # a share has no room for the fourth and fifth


def test_where_there_is_no_room_there_is_no_placement():
    assert place(DENSE, PAGE, PAGE, memory_bytes=3 * PAGE) is not None
    assert place(DENSE, PAGE, PAGE + 1, memory_bytes=3 * PAGE) is None
    assert place(SPREAD, PAGE, PAGE, memory_bytes=1 << 22, taken=[range(1 << 22)]) is None


def test_memory_is_found_beside_what_is_taken():
    taken = [range(PAGE), range(3 * PAGE, 5 * PAGE - 1)]
    assert find(2 * PAGE, 8 * PAGE, taken) == range(PAGE, 3 * PAGE)
    assert find(2 * PAGE + 1, 8 * PAGE, taken) == range(5 * PAGE, 7 * PAGE + 1)
    assert find(3 * PAGE + 1, 8 * PAGE, taken) is None
    assert find(PAGE, 8 * PAGE, []) == range(PAGE)


@pytest.mark.parametrize("memory_bytes", [1 << 25, 2 << 20], ids=["memory behind all ports", "none"])
def test_sessions_behind_ports_train_beside_each_other_with_the_bits_of_golden(memory_bytes):
    accelerator = InterpretedAccelerator(SPREAD)
    accelerator.transport.memory_bytes = memory_bytes
    device = HardwareDevice("interpreter", "test", accelerator)
    neighbour = device.create(SHAPE)
    neighbour.load(initial_parameters(SHAPE.network, 1))
    session = assert_same_training(device, SHAPE, iterations=2, seed=1)
    assert session.placement.stride == neighbour.placement.stride == 1 << 20
    assert session.placement.base == neighbour.placement.window_bytes
    for given, kept in zip(initial_parameters(SHAPE.network, 1), neighbour.parameters(), strict=True):
        np.testing.assert_array_equal(kept.weights, given.weights)
