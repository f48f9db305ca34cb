"""Training in groups of channels on the interpreter."""

from etalstm.device.machine.hardware import HardwareDevice
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training


def grouped_device(monkeypatch, name, config, groups):
    """Give a device on which sessions have so many groups, whatever is fastest."""
    monkeypatch.setattr("etalstm.plan.choose.fit.group_costs", lambda *_: {groups: 1.0})
    return HardwareDevice("interpreter", name, InterpretedAccelerator(config))


def assert_same(device, shape, groups, **run):
    """Train in so many groups; the bits are golden's."""
    session = assert_same_training(device, shape, **{"iterations": 2, "seed": 1} | run)
    assert session.plan.groups == groups
    return session
