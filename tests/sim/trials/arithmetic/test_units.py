import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_sim.trials.arithmetic.units import Units


class Delayed(wiring.Component):
    """Difference of two bytes, ``LATENCY`` cycles late."""

    def __init__(self, latency):
        self.LATENCY = latency
        super().__init__({"left": In(8), "right": In(8), "z": Out(8)})

    def elaborate(self, platform):
        m = Module()
        value = self.left - self.right
        for n in range(self.LATENCY):
            rank = Signal(8, name=f"rank_{n}", reset_less=True)
            m.d.sync += rank.eq(value)
            value = rank
        m.d.comb += self.z.eq(value)
        return m


@pytest.fixture(scope="module")
def bank():
    return Units({"one": Delayed(1), "four": Delayed(4)})


@pytest.mark.parametrize("name", ["one", "four"])
@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_gives_every_result_in_order(bank, name, count):
    a, b = np.random.default_rng(count).integers(0, 256, (2, count), dtype=np.uint32)
    assert np.array_equal(bank.run(name, a, b), (a - b) & 255)


def test_repeats_a_scalar_operand(bank):
    assert bank.run("four", np.arange(10, 15), 10).tolist() == [0, 1, 2, 3, 4]


def test_refuses_a_name_it_does_not_have(bank):
    with pytest.raises(ValueError, match="no unit 'two', the bank has one, four"):
        bank.run("two", [1], [1])


def test_refuses_operands_of_different_lengths(bank):
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        bank.run("one", [1, 2], [1, 2, 3])


def test_builds_a_bank_once(bank):
    assert not Units({"one": Delayed(1), "four": Delayed(4)}).built
