from etalstm_boards.resources.packing import pairs
from etalstm_boards.resources.synthesis import Cell


def lut(inputs, output):
    return Cell(f"LUT{len(inputs)}", {f"I{n}": [bit] for n, bit in enumerate(inputs)}, {"O": [output]}, False, "lut")


def shift_register(clock, tap):
    return Cell("SRL16E", {"D": [99], "CLK": [clock], "A0": [tap]}, {"Q": [98]}, False, "delay")


def test_bits_of_a_multiplexer_share_luts():
    assert pairs([lut([1, 10 + n, 20 + n], 30 + n) for n in range(8)]) == 4


def test_six_different_inputs_do_not_fit():
    assert pairs([lut([1, 2, 3, 4], 10), lut([1, 5, 6], 11)]) == 0
    assert pairs([lut([1, 2, 3, 4], 10), lut([1, 5], 11)]) == 1


def test_luts_that_share_nothing_stay_alone():
    assert pairs([lut([1, 2], 10), lut([3, 4], 11)]) == 0


def test_a_lut_of_six_inputs_stays_alone():
    assert pairs([lut([1, 2, 3, 4, 5, 6], 10), lut([1, 2], 11)]) == 0


def test_those_that_share_most_go_together():
    """The greedy choice by order alone would pair the first two and leave the others apart."""
    cells = [lut([1, 2, 3], 10), lut([1, 4, 5], 11), lut([1, 2, 3], 12), lut([4, 5, 6], 13)]
    assert pairs(cells) == 2


def test_a_carry_chain_keeps_its_luts():
    chain = Cell("CARRY4", {"S": [10], "DI": [11], "CI": [0]}, {"O": [12], "CO": [13]}, False, "carry")
    assert pairs([lut([1, 2], 10), lut([1, 2], 11), lut([1, 2], 14), lut([1, 2], 15), chain]) == 1


def test_shift_registers_pair_where_taps_and_clock_are_the_same():
    assert pairs([shift_register(0, 1) for _ in range(5)] + [shift_register(0, 2)]) == 2
