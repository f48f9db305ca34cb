"""The model's constants are those of the modules that they stand for."""

from etalstm.model.machine import latencies
from etalstm_hw.compute.pe import OmniPE, PEArray
from etalstm_hw.contract import BINARY32
from etalstm_hw.fp.activation import Activation
from etalstm_hw.fp.add import Adder
from etalstm_hw.fp.multiply import Multiplier
from etalstm_sim.transport import LATENCY_CYCLES


def test_latencies_of_the_arithmetic_are_the_modules():
    assert (latencies.MULTIPLIER, latencies.ADDER) == (Multiplier.LATENCY, Adder.LATENCY)
    assert latencies.ACTIVATION == Activation.LATENCY


def test_latencies_of_the_pes_are_the_arrays():
    pes = PEArray(BINARY32, 1, OmniPE.of)
    assert (pes.multiply_latency, pes.add_latency) == (latencies.PRODUCT, latencies.SUM)


def test_the_memory_is_the_simulated_one():
    assert latencies.MEMORY_CYCLES == LATENCY_CYCLES
