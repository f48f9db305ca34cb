from fractions import Fraction

import pytest

from etalstm_boards.part import Resources
from etalstm_boards.resources.count import count
from etalstm_boards.resources.delays import Delay, net_ps
from etalstm_boards.resources.depth import timing
from etalstm_boards.resources.step import BY_DELAY, BY_LEVELS, LEVELS_OF_MULTIPLIER, Step
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


def follow(cells, inputs=(), outputs=(), stubs=None, order=BY_LEVELS, **options):
    made = netlist(cells, inputs, outputs)
    return timing(made, (*made.inputs, *made.outputs), stubs or {}, order, **options)


def worst(cells, order=BY_LEVELS, **options):
    return follow(cells, order=order, **options).worst


def ps(*delays):
    """Sum up delays, and those of nets with so many readers."""
    return sum(net_ps(delay) if isinstance(delay, int) else delay.ps for delay in delays)


def dsp(enables, a, p, b=0, pcin=(), registered=True, **ports):
    inputs = {"A": [a], "B": [b] if b else ["0"], "PCIN": list(pcin), **{name: ["1"] for name in enables}, **ports}
    return Cell("DSP48E2", inputs, {"P": [p]}, False, "product")


def test_counts_luts_between_registers():
    path = worst([flip_flop(9, 1, "a"), lut([1], 2), lut([2, 1], 3), flip_flop(3, 4, "b")])
    assert (path.levels, path.step.chains, path.start, path.end) == (2, 0, "a", "b")


def test_a_carry_chain_is_a_level_whatever_its_length():
    chain = [carry("0", [2], [10], [11]), carry(11, [1], [12], [13]), carry(13, [1], [14], [15])]
    path = worst([flip_flop(9, 1), lut([1], 2), *chain, lut([14], 20), flip_flop(20, 21)])
    assert (path.levels, path.step.luts, path.step.chains) == (3, 2, 1)


def test_two_carry_chains_are_two_levels():
    chains = [carry("0", [2], [10], [11]), carry("0", [10], [12], [13])]
    path = worst([flip_flop(9, 1), lut([1], 2), *chains, flip_flop(12, 21)])
    assert (path.levels, path.step.luts, path.step.chains) == (3, 1, 2)


def test_an_unregistered_dsp_slice_is_a_multiplier_and_a_carry_chain():
    path = worst([flip_flop(9, 1), dsp([], 1, 2), lut([2], 3), flip_flop(3, 4)])
    assert (path.levels, path.step) == (LEVELS_OF_MULTIPLIER + 2, path.step._replace(luts=1, chains=1, multipliers=1))


@pytest.mark.parametrize(
    ("enable", "before", "behind"),
    [("CEA2", (0, 0), (1, 1)), ("CEM", (0, 1), (1, 0)), ("CEP", (1, 1), (0, 0))],
)
def test_a_register_of_a_dsp_slice_cuts_its_path(enable, before, behind):
    """The carry chains and multipliers on both sides of it."""
    slice_ = dsp([enable], 1, 2)
    for path, expected in ((worst([flip_flop(9, 1), slice_]), before), (worst([slice_, flip_flop(2, 4)]), behind)):
        assert (path.step.chains, path.step.multipliers) == expected


def test_between_the_registers_of_a_dsp_slice_is_a_multiplier():
    path = worst([flip_flop(9, 1), dsp(["CEA2", "CEM", "CEP"], 1, 2), flip_flop(2, 4)])
    assert (path.levels, path.start, path.end) == (LEVELS_OF_MULTIPLIER, "product", "product")


def test_a_pre_adder_is_a_carry_chain_unless_it_has_a_register():
    def slice_(enables):
        return [flip_flop(9, 1), dsp(enables, "0", 2, D=[1]), flip_flop(2, 4)]

    assert (worst(slice_([])).step.chains, worst(slice_([])).levels) == (2, 5)
    assert worst(slice_(["CEAD"])).step.chains == 1


def test_a_distributed_ram_is_read_through_a_lut_and_written_at_an_end():
    ram = Cell("RAM64M8", {"ADDRA": [1], "DIA": [2], "WE": [2]}, {"DOA": [3]}, False, "ram")
    path = worst([flip_flop(9, 1, "address"), lut([1], 2), ram, lut([3], 4), flip_flop(4, 5, "b")])
    assert (path.levels, path.start, path.end) == (2, "address", "b")
    path = worst([flip_flop(9, 1), lut([1], 6), lut([6], 2), ram, flip_flop(3, 5)])
    assert (path.levels, path.end) == (2, "ram")


def test_a_block_ram_is_a_register():
    ram = Cell("RAMB18E2", {"ADDRARDADDR": [2]}, {"DOUTADOUT": [3]}, False, "ram")
    path = worst([flip_flop(9, 1), lut([1], 2), ram, lut([3], 4), lut([4], 5), flip_flop(5, 6)])
    assert (path.levels, path.start) == (2, "ram")


def test_a_delay_has_the_nets_by_their_readers():
    """The last LUT is in the slice of its flip-flop."""
    others = [flip_flop(1, 20 + n) for n in range(7)]
    path = worst([flip_flop(9, 1), lut([1], 2), flip_flop(2, 3), *others], BY_DELAY)
    parts = (Delay.FLIP_FLOP_OUT, 8, Delay.LUT, Delay.SLICE_NET, Delay.FLIP_FLOP_DATA, Delay.CLOCK)
    assert (path.step.ps, path.readers) == (ps(*parts), 8)
    assert path.delay_ns == path.step.ps / 1000
    assert net_ps(8) == Delay.NET.ps + 3 * Delay.NET_DOUBLING.ps


def test_a_delay_has_the_bits_that_a_carry_passes():
    def chain(length):
        cells = [carry(10 * n + 2 if n else "0", [1], [10 * n + 11], [10 * n + 12]) for n in range(length)]
        return worst([flip_flop(9, 1), *cells, flip_flop(10 * length + 1, 5)], BY_DELAY).step

    assert chain(5).ps - chain(3).ps == 2 * Delay.CARRY_PASS.ps + net_ps(10) - net_ps(6)
    assert chain(3).ps == ps(
        *(Delay.FLIP_FLOP_OUT, 6, Delay.CARRY_ENTRY, Delay.CARRY_PASS, Delay.CARRY_EXIT, Delay.SLICE_NET),
        *(Delay.FLIP_FLOP_DATA, Delay.CLOCK),
    )


@pytest.mark.parametrize(
    ("kind", "registered", "delay"),
    [
        ("RAMB36E2", False, Delay.BLOCK_RAM_OUT),
        ("RAMB36E2", True, Delay.BLOCK_RAM_REGISTER_OUT),
        ("URAM288", False, Delay.ULTRA_RAM_OUT),
        ("URAM288", True, Delay.ULTRA_RAM_REGISTER_OUT),
        ("RAM64M8", False, Delay.LUT_RAM_OUT),
        ("SRL16E", False, Delay.LUT_RAM_OUT),
    ],
)
def test_a_memory_gives_its_words_later_than_a_flip_flop(kind, registered, delay):
    path = worst([Cell(kind, {}, {"DOUT": [1]}, registered, "ram"), flip_flop(1, 2)], BY_DELAY)
    assert path.step.ps == ps(delay, 1, Delay.FLIP_FLOP_DATA, Delay.CLOCK)


def test_the_slowest_path_need_not_be_the_deepest():
    ram = Cell("URAM288", {}, {"DOUT_A": [1]}, False, "ram")
    cells = [ram, lut([1], 2), flip_flop(2, 3), flip_flop(9, 4), lut([4], 5), lut([5], 6), flip_flop(6, 7)]
    assert (worst(cells).levels, worst(cells, BY_DELAY).start) == (2, "ram")


def test_a_dsp_slice_takes_what_is_published_from_its_register_to_its_result():
    """RapidWright has 1.62 ns from the register of A to P, without registers between."""
    path = worst([flip_flop(9, 1), dsp(["CEA2"], 1, 2), flip_flop(2, 4)], BY_DELAY)
    assert path.step.ps - ps(1, Delay.FLIP_FLOP_DATA, Delay.CLOCK) == 1620


def test_paths_cross_units():
    """One that ends in the unit, one that starts there, one that passes."""
    inner = follow([lut([1], 2), flip_flop(2, 3, "inside"), lut([3], 4), lut([1], 5)], inputs=[1], outputs=[4, 5])
    unit = Cell("unit", {"i1": [2]}, {"o4": [3], "o5": [4]}, False, "u")
    outer = [flip_flop(9, 1, "a"), lut([1], 2), unit]
    stubs = {"unit": (inner, "inner", ("i1", "o4", "o5"))}
    path = worst(outer, stubs=stubs)
    assert (path.levels, path.start, path.end) == (2, "a", "inside of inner")
    path = worst([*outer, lut([3], 6), lut([6], 7), flip_flop(7, 8, "b")], stubs=stubs)
    assert (path.levels, path.start, path.end) == (3, "inside of inner", "b")
    path = worst([*outer, lut([4], 6), lut([6], 7), flip_flop(7, 8, "b")], stubs=stubs)
    assert (path.levels, path.start, path.end) == (4, "a", "b")


def test_a_delay_is_that_of_the_flat_netlist_where_a_net_enters_a_unit():
    flat = [flip_flop(9, 1, "a"), lut([1], 2), lut([2], 3), lut([2], 4), flip_flop(3, 5), flip_flop(4, 6)]
    inner = follow([lut([1], 3), lut([1], 4), flip_flop(3, 5), flip_flop(4, 6)], inputs=[1], order=BY_DELAY)
    unit = Cell("unit", {"i1": [2]}, {}, False, "u")
    cut = worst([*flat[:2], unit], BY_DELAY, stubs={"unit": (inner, "inner", ("i1",))})
    assert (cut.step, cut.readers) == (worst(flat, BY_DELAY).step, 2)


def test_readers_of_a_net_that_leaves_a_unit_are_those_on_both_sides():
    inner = follow([flip_flop(9, 1, "a"), lut([1], 2), flip_flop(2, 3)], outputs=[1], order=BY_DELAY)
    outer = [Cell("unit", {}, {"o1": [1]}, False, "u"), *(lut([1], n) for n in (2, 3, 4)), flip_flop(2, 5)]
    path = worst(outer, BY_DELAY, stubs={"unit": (inner, "inner", ("o1",))})
    parts = (Delay.FLIP_FLOP_OUT, 4, Delay.LUT, Delay.SLICE_NET, Delay.FLIP_FLOP_DATA, Delay.CLOCK)
    assert (path.step.ps, path.readers) == (ps(*parts), 4)


def test_ports_are_ends_of_the_outermost_unit_alone():
    cells = [lut([1], 2), lut([2], 3)]
    assert follow(cells, inputs=[1], outputs=[3]).worst is None
    path = follow(cells, inputs=[1], outputs=[3], outermost=True).worst
    assert (path.levels, path.start, path.end) == (2, "port i1", "port o3")


def test_a_loop_is_refused():
    with pytest.raises(ValueError, match="the logic has a loop"):
        follow([lut([1, 3], 2), lut([2], 3), flip_flop(3, 1)])


def test_every_delay_says_where_it_is_from():
    sources = ("RapidWright", "FloPoCo", "DS923", "estimate")
    assert not [delay.name for delay in Delay if not any(source in delay.source for source in sources)]


@pytest.mark.parametrize("order", [BY_LEVELS, BY_DELAY])
def test_a_weight_is_a_step(order):
    steps = [Step(), Step(1620, 3, 2, 1), Step(12_345, 31, 0, 7), Step(99_999)]
    assert [order.step(order.weight(step)) for step in steps] == steps
    both = Step(*map(sum, zip(*steps[1:3], strict=True)))
    assert order.weight(both) == order.weight(steps[1]) + order.weight(steps[2])


def test_primitives_add_up_and_stubs_are_none():
    cells = [lut([1, 2], 3), flip_flop(3, 1), Cell("RAMB18E2", {}, {}, False, "m"), Cell("unit", {}, {}, False, "u")]
    assert count(cells, ["unit"]) == Resources(lut=1, ff=1, bram=Fraction(1, 2))


def test_an_unknown_primitive_is_refused():
    with pytest.raises(ValueError, match="primitive ABACUS of u is unknown"):
        count([Cell("ABACUS", {}, {}, False, "u")], [])
