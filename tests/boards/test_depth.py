from fractions import Fraction

import pytest

from etalstm_boards.part import Resources
from etalstm_boards.resources.count import count
from etalstm_boards.resources.depth import timing
from etalstm_boards.resources.synthesis import Cell, Netlist


def flip_flop(d, q, name="r"):
    return Cell("FDRE", {"C": [0], "D": [d]}, {"Q": [q]}, False, name)


def lut(inputs, o):
    return Cell(f"LUT{len(inputs)}", {f"I{n}": [bit] for n, bit in enumerate(inputs)}, {"O": [o]}, False, "lut")


def carry(ci, s, o, co):
    return Cell("CARRY4", {"CI": [ci], "S": s, "DI": s, "CYINIT": ["0"]}, {"O": o, "CO": co}, False, "carry")


def netlist(cells, inputs=(), outputs=()):
    ports = {f"i{bit}": [bit] for bit in inputs}, {f"o{bit}": [bit] for bit in outputs}
    return Netlist(*ports, cells, {})


def follow(cells, inputs=(), outputs=(), stubs=None, **options):
    made = netlist(cells, inputs, outputs)
    return timing(made, (*made.inputs, *made.outputs), stubs or {}, **options)


def test_counts_luts_between_registers():
    path = follow([flip_flop(9, 1, "a"), lut([1], 2), lut([2, 1], 3), flip_flop(3, 4, "b")]).deepest
    assert (path.levels, path.carry_chains, path.start, path.end) == (2, 0, "a", "b")


def test_a_carry_chain_counts_once_and_apart():
    chain = [carry("0", [2], [10], [11]), carry(11, [1], [12], [13]), carry(13, [1], [14], [15])]
    path = follow([flip_flop(9, 1), lut([1], 2), *chain, lut([14], 20), flip_flop(20, 21)]).deepest
    assert (path.levels, path.carry_chains) == (2, 1)


def test_a_multiplier_counts_apart_unless_it_has_registers():
    def through(registered):
        dsp = Cell("DSP48E2", {"A": [1], "CLK": [0]}, {"P": [2]}, registered, "product")
        return follow([flip_flop(9, 1), dsp, lut([2], 3), flip_flop(3, 4)]).deepest

    assert (through(False).levels, through(False).multipliers) == (1, 1)
    assert (through(True).multipliers, through(True).start) == (0, "product")


def test_a_distributed_ram_is_read_through_a_lut_and_written_at_an_end():
    ram = Cell("RAM64M8", {"ADDRA": [1], "DIA": [2], "WE": [2]}, {"DOA": [3]}, False, "ram")
    path = follow([flip_flop(9, 1, "address"), lut([1], 2), ram, lut([3], 4), flip_flop(4, 5, "b")]).deepest
    assert (path.levels, path.start, path.end) == (2, "address", "b")
    path = follow([flip_flop(9, 1), lut([1], 6), lut([6], 2), ram, flip_flop(3, 5)]).deepest
    assert (path.levels, path.end) == (2, "ram")


def test_a_block_ram_is_a_register():
    ram = Cell("RAMB18E2", {"ADDRARDADDR": [2]}, {"DOUTADOUT": [3]}, False, "ram")
    path = follow([flip_flop(9, 1), lut([1], 2), ram, lut([3], 4), lut([4], 5), flip_flop(5, 6)]).deepest
    assert (path.levels, path.start) == (2, "ram")


def test_paths_cross_units():
    """One that ends in the unit, one that starts there, one that passes."""
    inner = follow([lut([1], 2), flip_flop(2, 3, "inside"), lut([3], 4), lut([1], 5)], inputs=[1], outputs=[4, 5])
    unit = Cell("unit", {"i1": [2]}, {"o4": [3], "o5": [4]}, False, "u")
    outer = [flip_flop(9, 1, "a"), lut([1], 2), unit]
    stubs = {"unit": (inner, "inner", ("i1", "o4", "o5"))}
    path = follow(outer, stubs=stubs).deepest
    assert (path.levels, path.start, path.end) == (2, "a", "inside of inner")
    path = follow([*outer, lut([3], 6), lut([6], 7), flip_flop(7, 8, "b")], stubs=stubs).deepest
    assert (path.levels, path.start, path.end) == (3, "inside of inner", "b")
    path = follow([*outer, lut([4], 6), lut([6], 7), flip_flop(7, 8, "b")], stubs=stubs).deepest
    assert (path.levels, path.start, path.end) == (4, "a", "b")


def test_ports_are_ends_of_the_outermost_unit_alone():
    cells = [lut([1], 2), lut([2], 3)]
    assert follow(cells, inputs=[1], outputs=[3]).deepest is None
    path = follow(cells, inputs=[1], outputs=[3], outermost=True).deepest
    assert (path.levels, path.start, path.end) == (2, "port i1", "port o3")


def test_a_loop_is_refused():
    with pytest.raises(ValueError, match="the logic has a loop"):
        follow([lut([1, 3], 2), lut([2], 3), flip_flop(3, 1)])


def test_primitives_add_up_and_stubs_are_none():
    cells = [lut([1, 2], 3), flip_flop(3, 1), Cell("RAMB18E2", {}, {}, False, "m"), Cell("unit", {}, {}, False, "u")]
    assert count(cells, ["unit"]) == Resources(lut=1, ff=1, bram=Fraction(1, 2))


def test_an_unknown_primitive_is_refused():
    with pytest.raises(ValueError, match="primitive ABACUS of u is unknown"):
        count([Cell("ABACUS", {}, {}, False, "u")], [])
