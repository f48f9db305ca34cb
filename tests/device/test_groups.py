"""Groups of channels on the simulated machine."""

import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from tests.training import assert_same_training

SHAPE = {"network": NetworkShape(3, 4, 2), "steps": 3}


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize(("batch", "slices"), [(8, 2), (7, 2), (8, 4)])
@pytest.mark.parametrize("policy", ["dense", "ms1", "ms1-bf16"])
def test_groups_keep_golden_bits(policy, batch, slices, stall):
    storage = Storage(policy, 0.0 if policy == "dense" else 0.1)
    shape = TrainingShape(execution=Execution(slices=slices, storage=storage), **SHAPE, batch=batch, masked=stall > 0)
    with open_device("sim", "test", stall=stall, seed=3) as device:
        session = assert_same_training(device, shape, iterations=2, seed=7, skip_cells=0.3)
        assert session.plan.groups == 2


def test_groups_keep_golden_bits_when_the_host_runs_the_forward_pass():
    shape = TrainingShape(execution=Execution(slices=2, storage=Storage("ms1", 0.1)), **SHAPE, batch=7)
    with open_device("sim", "test", stall=0.5, seed=4) as device:
        assert_same_training(OffloadDevice(device), shape, iterations=2, seed=8)


def test_groups_take_the_cycles_of_fewer_sequences(monkeypatch):
    """Units that fill the lanes of one channel leave half of those of two idle."""
    cycles = {}
    for groups in (1, 2):
        monkeypatch.setattr("etalstm.plan.choose.fit.group_costs", lambda *_, count=groups: {count: 1.0})
        with open_device("sim", "test") as device:
            shape = TrainingShape(NetworkShape(4, 4), 8, 4, Execution(slices=2))
            cycles[groups] = assert_same_training(device, shape, iterations=1, seed=1).counters()["cycles"]
    assert cycles[2] < 0.85 * cycles[1], cycles
