"""The sweep over divisions of the PEs, without a machine; and the work it starts from, against emitted programs."""

import pytest

from etalstm.network.architecture import Division
from etalstm.network.shape import NetworkShape
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import walk
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode, VectorOp
from etalstm_sim.trials.products.shares import ELEMENTWISE, ShareSweep, halves, work

ON_PES = (VectorOp.MULTIPLY, VectorOp.ADD, VectorOp.SUBTRACT, VectorOp.ADD_SCALED, VectorOp.ADD_SQUARE)


def test_the_work_is_that_of_the_programs():
    network, batch, steps = NetworkShape(16, 16), 4, 6  # no lane of preset test is padding
    config, counted = preset("test"), 0
    for program in Plan(config, network, batch, steps).programs.values():
        for step in walk(program.words):
            if step.opcode == Opcode.VECTOR and step.fields["op"] in ON_PES:
                counted += step.fields["outer"] * step.fields["inner"] * config.pes
    found = work(network, batch, steps)
    macs = 3 * network.rows * 32 * batch * steps
    expected = counted / (counted + macs)
    assert found["elementwise"] == pytest.approx(expected, rel=0.03)  # biases, and sums that are set to 0, left out
    assert sum(found.values()) == pytest.approx(1) and found["matmul"] == pytest.approx(2 * found["outer"])


@pytest.mark.parametrize("elementwise", ELEMENTWISE)
def test_halves_leave_nobody_out(elementwise):
    division = halves(elementwise)
    assert division.elementwise == elementwise and 0 <= division.matmul - division.outer <= 1


def test_a_sweep_finds_the_fewest_cycles_of_iteration_and_forward_pass():
    """The machine is a formula whose best divisions are known."""
    measured = []

    def cycles(architecture):
        division = architecture.division
        forward = 100 / division.forward + 10 / division.elementwise
        if architecture.name == "inference":
            return forward
        return forward + 200 / division.backward + 10 / division.elementwise

    sweep = ShareSweep(cycles, measured.append)
    assert sweep.training() == Division(13, 13, 6)
    assert sweep.inference() == Division(26, 0, 6)
    assert len(measured) == len({tuple(entry.values()) for entry in measured}) == 2 * len(ELEMENTWISE) + 2
