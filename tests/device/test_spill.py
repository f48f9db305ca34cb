"""What does not fit the device's memory goes to the host and comes back, and nothing tells."""

import dataclasses

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import PlanError, StreamError
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.memory.stored import Piece, cut, divide, everything
from etalstm_hw.config import preset
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

NETWORK = NetworkShape(5, 19, 2)


SMALL, LONG = (8, 8), (12, 40)  # sequences and steps; programs do not grow with the steps, what cells keep does


def shape_of(policy="ms1", budget=None, masked=False, share=None, sizes=SMALL):
    theta = 0.1 if any(name != "dense" for name in ([policy] if isinstance(policy, str) else policy)) else 0
    return TrainingShape(
        NETWORK, *sizes, Execution(Storage(policy, theta)), masked=masked, log_share=share, memory_budget=budget
    )


def interpreted(early=True):
    return HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test"), early))


def tight(policy, **options):
    """The shape with as small a budget as there can be."""
    with pytest.raises(PlanError, match="a memory budget of 1 bytes is too small") as error:
        interpreted().create(shape_of(policy, 1, **options))
    return shape_of(policy, int(str(error.value).rsplit(" ", 1)[1].replace(",", "")), **options)


def train_beside_golden(device, shape, skip_cells=0.0):
    return assert_same_training(device, shape, iterations=2, seed=7, skip_cells=skip_cells)


# tests/cli/verify/test_compare.py has every storage by itself
@pytest.mark.parametrize(("policy", "stall"), [("ms1-bf16", 0.0), (("dense", "ms1"), 0.5)], ids=str)
def test_spilled_segments_keep_golden_bits(policy, stall):
    options = {"masked": True, "share": 1.0, "sizes": LONG}
    shape = tight(policy, **options)
    with open_device("sim", "test", stall=stall, seed=3) as device:
        session = train_beside_golden(device, shape)
        whole = interpreted().create(shape_of(policy, **options)).plan.memory_bytes
        assert session.plan.memory_bytes <= shape.memory_budget < whole
        moved = session.memory()
        assert moved["segments"] > 2
        assert all(moved["host"][way]["intermediates"] > 0 for way in ("read", "written"))


def test_spilled_segments_may_skip_cells():
    with open_device("sim", "test", stall=0.5, seed=3) as device:
        session = train_beside_golden(device, tight("ms1", masked=True, share=1.0), skip_cells=0.3)
        assert session.memory()["segments"] > 2


@pytest.mark.parametrize("early", [True, False], ids=["transfers last", "transfers first"])
def test_transfers_touch_nothing_that_the_running_segment_does(early):
    train_beside_golden(interpreted(early), tight("ms1", share=1.0))


def test_a_log_that_is_too_small_makes_more_segments():
    budget = tight("ms1", share=1.0).memory_budget
    session = train_beside_golden(interpreted(), shape_of("ms1", budget, share=0.1))
    assert session.memory()["replays"] > 0 and session.plan.memory_bytes <= budget


def test_what_comes_back_is_what_went():
    """Streams leave one region; written to another, they are found there by the machine's own index."""
    with open_device("sim", "test") as device:
        session = train_beside_golden(device, tight("ms1", share=1.0))
        segments, intermediates = session.plan.map.stored.segments, session.spill.intermediates
        first, sealed = segments[0], session.spill.host[0]
        assert intermediates.read(first) == sealed, "the backward pass ended with the first segment's"
        elsewhere = dataclasses.replace(first, region=segments[1].region, log=segments[1].log)
        intermediates.write(elsewhere, sealed)
        assert intermediates.read(elsewhere) == sealed
        start = session.windows.read_words(session.plan.map.layers[0].index.section(0, 1)).view(np.uint32)[0, 0, 0]
        assert start == segments[1].region.first * session.plan.map.config.vector_beats


def damage_index(session, array):
    """Turn over a bit of the first word of an array's first vector."""
    words = session.windows.read_words(array.section(0, 1)).copy()
    words.view(np.uint32)[0, 0, 0] ^= 1
    session.windows.write_words(array.section(0, 1), words)


def test_an_index_that_is_damaged_on_the_machine_is_not_believed():
    session = train_beside_golden(interpreted(), tight("ms1", share=1.0))
    damage_index(session, session.plan.map.layers[0].index)
    with pytest.raises(StreamError, match=r"the index of a stream, at beat .* does not fit its check"):
        session.spill.intermediates.read(session.plan.map.stored.segments[0])


def test_an_index_of_gradients_that_is_damaged_is_not_believed():
    session = train_beside_golden(interpreted(), shape_of())
    damage_index(session, session.plan.map.layers[1].delta_index)
    with pytest.raises(StreamError, match="does not fit its check"):
        session.usage()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda sealed: sealed[:-1], "is missing: no more streams came"),
        (
            lambda sealed: [sealed[1], sealed[0], *sealed[2:]],
            "P_i of layer 0, step 0 .channel 1,.* came where .*channel 0,.* was expected",
        ),
        (lambda sealed: [sealed[0][:-1] + b"!", *sealed[1:]], "corrupted: its CRC is"),
        (lambda sealed: [b"ELSE" + sealed[0][4:], *sealed[1:]], "its magic is b'ELSE'"),
        (lambda sealed: [sealed[0][:-4], *sealed[1:]], "words make"),
    ],
    ids=["missing", "order", "CRC", "magic", "length"],
)
def test_what_was_damaged_on_the_host_is_refused(damage, message):
    shape = tight("ms1", share=1.0)
    session = interpreted().create(shape)
    session.load(initial_parameters(NETWORK, 1))
    session.forward(np.ones(shape.x_shape, np.float32))
    number = min(session.spill.host)
    session.spill.host[number] = damage(session.spill.host[number])
    with pytest.raises(StreamError, match=message):
        session.backward(np.ones(shape.y_shape, np.float32))
    session.forward(np.ones(shape.x_shape, np.float32))
    session.backward(np.ones(shape.y_shape, np.float32))


def test_segments_are_as_even_as_they_can_be():
    assert cut([2, 3], 2, 5) == [
        (Piece(0, range(2)),), (Piece(1, range(1)),), (Piece(1, range(1, 2)),)
    ]  # fmt: skip
    assert divide([2, 3], 2, 2) == [(Piece(0, range(2)),), (Piece(1, range(2)),)]
    assert divide([1], 7, 3) == [(Piece(0, range(0, 3)),), (Piece(0, range(3, 6)),), (Piece(0, range(6, 7)),)]
    assert divide([4], 1, 5) == everything(1, 1)
    with pytest.raises(PlanError, match="room for 2 vectors, one cell keeps 3"):
        cut([2, 3], 2, 2)


@pytest.mark.parametrize("budget", [0, -1, 1.5])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(ValueError, match="memory_budget must be"):
        shape_of("ms1", budget)
