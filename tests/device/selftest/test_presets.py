"""The self-test's programs fit every preset, and the interpreter gives their answers."""

import numpy as np
import pytest

from etalstm.device.selftest import PRODUCTS, arithmetic, memory
from etalstm.device.selftest.bench import Bench
from etalstm_hw.config import PRESETS
from tests.plan.machine import InterpretedAccelerator

CHECKS = [
    (name, check)
    for name, config in PRESETS.items()
    for check in (
        memory.mapping, memory.data, arithmetic.vectors, arithmetic.parameters, *PRODUCTS[config.integers].values()
    )
]  # fmt: skip


class Timed(InterpretedAccelerator):
    def run(self, program, timeout_seconds=None):
        super().run(program)


class Damaged(Timed):
    """A bit of every byte changes in every program."""

    def run(self, program, timeout_seconds=None):
        super().run(program)
        self.transport.bytes ^= np.uint8(1)


@pytest.mark.parametrize(("preset", "check"), CHECKS, ids=[f"{name}-{check.__name__}" for name, check in CHECKS])
def test_a_check_passes_and_can_fail(preset, check):
    outcome = check(Bench(Timed(PRESETS[preset])))
    assert outcome.passed, outcome.findings
    assert not check(Bench(Damaged(PRESETS[preset]))).passed


class Deaf(Timed):
    """The window of channel 2 keeps what it holds."""

    def run(self, program, timeout_seconds=None):
        window = slice(self._base + 2 * self._stride, self._base + 3 * self._stride)
        before = self.transport.bytes[window].copy()
        super().run(program)
        self.transport.bytes[window] = before


def test_a_window_that_is_not_reached_is_named():
    found = memory.mapping(Bench(Deaf(PRESETS["bench"]))).findings
    assert [each.what for each in found] == [
        f"channel {n} (port{n}) does not reach the windows of channels 2" for n in range(4)
    ]
    assert found[0].suspect == "port0's address lines"
