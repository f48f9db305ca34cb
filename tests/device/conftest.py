"""What tests of several devices share."""

import pytest


@pytest.fixture
def divide_batches(monkeypatch):
    """Has devices work on batches in so many parts, whatever memory they have."""
    return lambda count: monkeypatch.setattr("etalstm.device.machine.hardware.part_counts", lambda slices: [count])
