"""What the model leaves out because it went through the like before: the counters are those of going through all."""

import numpy as np
import pytest

from etalstm.model.fingerprint import Fingerprints
from etalstm.model.iteration import count_program, of_all_channels
from etalstm.model.machine.machine import make_machine
from etalstm.model.machine.state import sizes_of
from etalstm.model.machine.table import tables, tables_of
from etalstm.model.operands import Densities
from etalstm.model.repeats import Repeats
from etalstm.model.run import ENDED, run
from etalstm.network.architecture import architecture
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset
from etalstm_hw.contract import SLOTS, Counter

MOST_WALKED = 10_000  # cycles of a forward pass, of 28,000 with 40 steps
BEATS_WITHIN = 0.01  # of the program: those that were fetched and dropped where a loop goes back
MOST_OF_UPDATE = 0.4  # of the cycles of a program without loops

# preset, inputs, units, layers, sequences, steps, groups, density, storage, architecture
SHAPES = {
    "test dense": ("test", 9, 20, 2, 7, 12, 1, 1.0, "dense", "swing"),
    "test streams": ("test", 9, 20, 1, 7, 12, 1, 1.0, "ms1", "swing"),
    "test long": ("test", 9, 20, 1, 7, 60, 1, 0.5, "ms1-bf16", "swing"),
    "test sparse groups": ("test", 9, 20, 2, 8, 12, 2, 0.3, "ms1-bf16", "swing"),
    "test dynamic": ("test", 9, 20, 1, 7, 12, 1, 0.3, "dense", "dynamic"),
    "test static": ("test", 9, 20, 1, 7, 12, 1, 1.0, "dense", "static"),
    "sim sparse": ("sim", 20, 48, 1, 16, 12, 1, 0.1, "ms1-bf16", "swing"),
    "slice dense": ("slice", 40, 96, 1, 16, 12, 1, 1.0, "ms1", "swing"),
    "slice sparse groups": ("slice", 40, 64, 1, 16, 12, 2, 0.1, "ms1-bf16", "swing"),
    "vcu128 dense groups": ("vcu128", 1024, 1024, 1, 64, 8, 5, 1.0, "ms1-bf16", "swing"),
    "vcu128 wide": ("vcu128", 1536, 1536, 2, 40, 4, 5, 1.0, "ms1-bf16", "swing"),
    "vcu128 dynamic": ("vcu128", 512, 512, 1, 80, 24, 5, 0.1, "ms1-bf16", "dynamic"),
    "u280 layers": ("u280", 700, 700, 2, 50, 8, 4, 0.25, "ms1-bf16", "swing"),
    "vcu128 sparse groups": ("vcu128", 512, 512, 2, 80, 24, 5, 0.1, "ms1-bf16", "swing"),
    "integers dense": ("test-int8", 9, 20, 2, 8, 12, 1, 1.0, "ms1", "swing"),
    "integers sparse": ("sim-int8", 40, 64, 1, 32, 12, 1, 0.2, "ms1-bf16", "swing"),
}


def plan_of(shape):
    name, inputs, hidden, layers, batch, steps, groups, density, storage, architecture_name = shape
    config, machine = preset(name), architecture(architecture_name)
    arithmetic = "int8" if config.integers else "float32"
    execution = Execution(Storage(storage), slices=groups, architecture=machine, arithmetic=arithmetic)
    plan = Plan(config, NetworkShape(inputs, hidden, layers), batch, steps, execution, groups=groups)
    return config, plan, Densities(config, plan, delta=density, local=density), machine


def make_run(config, plan, operands, machine, name):
    """Give a machine for a program of a plan, the program's tables, and the sizes."""
    division = machine.division
    shares = (division.elementwise, division.forward, division.backward) if division else (0, 0, 0)
    sizes = sizes_of(config, skips=machine.skips, shares=shares, batch_groups=plan.groups)
    program = tables_of(*tables(config, plan.programs[name].words, operands))
    return make_machine(sizes, config.queue_depth, len(program.table)), program, sizes


def run_with(config, plan, operands, machine, name):
    """Run a program of a plan without what repeats; give what ran it, and the machine's counters."""
    modelled, program, sizes = make_run(config, plan, operands, machine, name)
    repeats = Repeats(modelled, program, sizes)
    assert repeats.run()
    return repeats, of_all_channels(modelled, sizes)


@pytest.mark.parametrize("name", SHAPES)
def test_what_comes_again_in_the_same_state_counts_the_same(name):
    config, plan, operands, machine = plan_of(SHAPES[name])
    for program_name, program in plan.programs.items():
        short = run_with(config, plan, operands, machine, program_name)[1]
        full = count_program(config, program.words, operands, machine, groups=plan.groups, repeats=False)
        beats, short[Counter.PROGRAM_BEATS] = short[Counter.PROGRAM_BEATS], full[Counter.PROGRAM_BEATS]
        assert beats == pytest.approx(full[Counter.PROGRAM_BEATS], rel=BEATS_WITHIN)
        different = np.flatnonzero(short != full)
        assert not different.size, f"{program_name}: counters {different}: {short[different]}, not {full[different]}"


@pytest.mark.parametrize("name", ["test sparse groups", "test dynamic", "integers dense", "integers sparse"])
def test_a_state_is_the_same_whenever_it_comes(name):
    of_plan = plan_of(SHAPES[name])
    for program_name in of_plan[1].programs:
        states = []
        for begun in (0, 1000 * SLOTS):
            modelled, program, sizes = make_run(*of_plan, program_name)
            modelled.sequencer["cycle"] = begun
            assert run(modelled, program, sizes) == ENDED
            states.append(Fingerprints(modelled, sizes).take(program.table))
        assert states[0] == states[1], f"{program_name}: a field is a time, and is compared as it is"


@pytest.mark.parametrize("preset_name", ["test", "test-int8"])
@pytest.mark.parametrize("steps", [40, 400])
def test_what_is_gone_through_does_not_grow_with_the_steps(preset_name, steps):
    of_plan = plan_of((preset_name, 8, 8, 1, 8, steps, 1, 0.5, "ms1-bf16", "swing"))
    repeats, _ = run_with(*of_plan, "forward")
    assert repeats.walked < MOST_WALKED, f"{repeats.walked} cycles were gone through"


def test_equal_parts_are_gone_through_once_wherever_in_a_burst_of_the_program_they_begin():
    repeats, counters = run_with(*plan_of(SHAPES["vcu128 wide"]), "update")
    cycles = counters[Counter.CYCLES]
    assert repeats.walked < MOST_OF_UPDATE * cycles, f"{repeats.walked} of {cycles} cycles were gone through"
