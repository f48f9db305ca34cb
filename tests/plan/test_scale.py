"""What planning costs does not grow with a network, and what cannot be planned is told."""

import random
import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from etalstm.device import TrainingShape
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import DeviceError, PlanError
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.choose.fit import plan_within
from etalstm.plan.plan import Plan
from etalstm_hw.config import PRESETS, preset
from tests.plan.machine import InterpretedAccelerator
from tests.training import arithmetic_of, assert_same_training

SEED = 20


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("storage", ["dense", "ms1", "ms1-bf16"])
@pytest.mark.parametrize(
    ("name", "network", "batch", "few"),
    [
        ("test", (3, 5, 2), 3, 10),
        ("test", (8, 33, 1), 9, 10),
        ("sim", (8, 32, 1), 32, 10),
        ("vcu128", (256, 256, 2), 64, 10),
        # Steps share loads of weights: a loop's body has several, and what they leave depends on T modulo these.
        ("test", (20, 20, 2), 3, 40),
        ("slice", (300, 300, 1), 26, 40),
    ],
    ids=str,
)
def test_programs_are_as_long_for_1000_steps_as_for_few(name, network, batch, few, storage, masked):
    make = partial(
        Plan, preset(name), NetworkShape(*network), batch, execution=Execution(storage=Storage(storage)), masked=masked
    )
    plans = [make(steps).programs.items() for steps in (few, 1000)]
    short, long = ({name: len(program.words) for name, program in programs} for programs in plans)
    assert short == long


def test_a_network_of_gigabytes_takes_megabytes_to_plan():
    tracemalloc.start()
    plan = Plan(preset("vcu128"), NetworkShape(1024, 1024, 2), 128, 303, Execution(storage=Storage("ms1-bf16")))
    assert plan.memory_bytes > 3 << 30
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 64 << 20, used


def test_a_budget_does_not_plan_the_undivided_network():
    """Its memory map tells that it is too large; only plans that may fit have programs."""
    plans = []

    def make(**options):
        plans.append(Plan(preset("test"), NetworkShape(5, 19, 2), 8, 200, **options))
        return plans[-1]

    whole = make().windows_bytes
    assert plan_within(whole * 95 // 100, make) is plans[-1]
    assert [plan for plan in plans if "programs" in vars(plan)] == plans[-1:]


def random_shape(generator):
    size = lambda most: round(2 ** generator.uniform(0, most))  # noqa: E731
    return (
        NetworkShape(size(12), size(12), generator.randint(1, 3)), size(7), size(9),
        generator.random() < 0.5, Storage(generator.choice(["dense", "ms1", "ms1-bf16"])),
    )  # fmt: skip


@pytest.mark.parametrize("number", range(24))
def test_a_network_is_planned_or_refused(number):
    """Promise 6: nothing but the memories of a machine limits a network; what does not fit is a PlanError."""
    generator = random.Random(SEED + number)
    name = generator.choice(sorted(PRESETS))
    network, batch, steps, masked, storage = random_shape(generator)
    try:
        plan = Plan(
            preset(name), network, batch, steps, replace(arithmetic_of(name), storage=storage), masked=masked,
            memory_bytes=8 << 30,
        )  # fmt: skip
        assert plan.program_bytes > 0
    except PlanError as error:
        assert any(word in str(error) for word in ("bytes of memory", "depth", "scratch", "rows of weights")), error


def test_what_no_field_can_hold_is_refused_with_the_limit():
    """A machine whose windows have more beats than an address counts."""
    with pytest.raises(PlanError, match=r"[\d,]+ beats, an address counts 268,435,456"):
        Plan(preset("test"), NetworkShape(8, 8), 1, 10**8)


def small_machine(memory_bytes):
    accelerator = InterpretedAccelerator(preset("test"))
    accelerator.transport.memory_bytes = memory_bytes
    return HardwareDevice("interpreter", "test", accelerator)


@pytest.mark.parametrize("share", [0.05, 1.0], ids=["logs grow", "logs stay"])
def test_a_memory_with_room_for_one_layers_delta_keeps_golden_bits(share):
    shape = TrainingShape(NetworkShape(5, 19, 3), 8, 8, Execution(storage=Storage("ms1", 0.1)), log_share=share)
    make = partial(Plan, preset("test"), shape.network, 8, 8, Execution(storage=shape.execution.storage))
    every, one = make().memory_bytes, make(every_delta=False).memory_bytes
    assert one < every
    session = assert_same_training(small_machine(one), shape, iterations=2, seed=SEED)
    assert session.plan.map.stored.every_delta == (share < 1)
    if share < 1:
        assert session.memory()["replays"]
        return
    assert [usage.delta_kept > 0 for usage in session.usage()] == [True] * 3
    session.forward(np.zeros(shape.x_shape, np.float32))
    session.backward(np.ones(shape.y_shape, np.float32))
    with pytest.raises(DeviceError, match="layer 0's gates were not kept"):
        session.contributions()


def test_programs_that_skip_cells_may_be_longer_than_those_that_skip_none():
    shape = TrainingShape(NetworkShape(3, 5), 2, 40)
    session = assert_same_training(small_machine(1 << 24), shape, iterations=2, seed=SEED, skip_cells=0.5)
    skipped = np.zeros((1, 40), bool)
    skipped[0, ::3] = True
    longer = session.plan.passes(skipped)[1][0].bytes
    assert longer > Plan(preset("test"), shape.network, 2, 40).programs["backward"].bytes
