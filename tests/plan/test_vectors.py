"""Named vectors lie interleaved in the scratch memory, and operations become instructions on them."""

import pytest

from etalstm.errors import PlanError
from etalstm.network.cells.cell import arrays
from etalstm.network.cells.operation import equations
from etalstm.plan.memory.operands import Operand, Scratch
from etalstm.plan.passes.vectors import Vectors
from etalstm.plan.program.emit import Emitter
from etalstm.plan.program.program import Program
from etalstm_hw import contract
from etalstm_hw.config import PRESETS
from etalstm_hw.contract import Memory, Source, VectorOp

CONFIG = PRESETS["test"]
TILES, SIZE = 2, 3


def vectors(*layout, most=TILES * SIZE):
    program = Program(CONFIG)
    found = Vectors(Emitter(CONFIG, program), Scratch(CONFIG), most)
    found.take(arrays(*layout))
    return found, program


def fields(program):
    return [contract.decode(word)[1] for word in program.words]


def test_names_of_an_array_alternate_tile_by_tile():
    found, _ = vectors("c", "i f")
    assert found.array("f") == Operand(Memory.SCRATCH, 6)
    assert found.operand("c", SIZE) == Operand(Memory.SCRATCH, 0, outer=SIZE)
    assert found.operand("f", SIZE) == Operand(Memory.SCRATCH, 6 + SIZE, outer=2 * SIZE)


def test_names_that_share_a_vector_have_one_place():
    found, _ = vectors("a", "c=tanh_c")
    assert found.operand("tanh_c", SIZE) == found.operand("c", SIZE)


def test_an_equation_is_one_instruction_on_its_vectors():
    found, program = vectors("i f", "rest")
    found.run(equations("rest = 1 - f\n i = sigmoid(z_i)"), TILES, SIZE, {"z_i": Operand(Memory.SUMS, 5, outer=4)})
    difference, activation = fields(program)
    assert difference["op"] == VectorOp.SUBTRACT
    assert (difference["a_source"], difference["a"]) == (Source.PARAMETER, contract.PARAMETER_ONE)
    assert (difference["b"], difference["b_outer"], difference["b_inner"]) == (SIZE, 2 * SIZE, 1)
    assert (difference["d"], difference["d_outer"]) == (2 * TILES * SIZE, SIZE)
    assert (difference["outer"], difference["inner"]) == (TILES, SIZE)
    assert (activation["op"], activation["a_source"], activation["a"]) == (VectorOp.SIGMOID, Source.SUMS, 5)


def test_an_array_of_which_all_vectors_are_named_is_masked_at_once():
    found, program = vectors("P_i P_f", "i f")
    found.select_zero(Operand(Memory.SCRATCH, 100), ("P_i", "P_f", "f"), TILES, SIZE)
    whole, one = fields(program)
    assert (whole["d"], whole["outer"], whole["d_outer"]) == (0, 2 * TILES, SIZE)
    assert (one["d"], one["outer"], one["d_outer"]) == (2 * TILES * SIZE + SIZE, TILES, 2 * SIZE)


def test_a_full_scratch_memory_is_an_error_that_names_the_array():
    with pytest.raises(PlanError, match="no room for i, f"):
        vectors("c", "i f", most=CONFIG.scratch_depth // 2)
