"""What the cocotb benches feed a design with: words, streams."""

import numpy as np
from cocotb.triggers import RisingEdge

from etalstm_sim.benches.unkindness import pauses

SPECIALS = (0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x807FFFFF, 0x3F800000)


def words(generator, count):
    """Words around 1, with zeros, infinities, NaNs and subnormals among them."""

    def word():
        if generator.random() < 0.1:
            return generator.choice(SPECIALS)
        return generator.getrandbits(1) << 31 | generator.randrange(118, 134) << 23 | generator.getrandbits(23)

    return np.array([word() for _ in range(count)], np.uint32)


def bits(function, *operands):
    """Apply a float32 function to words."""
    return np.asarray(function(*(operand.view(np.float32) for operand in operands)), np.float32).view(np.uint32)


async def send(dut, name, payloads, stall, seed):
    """Drive a stream, with gaps."""
    gaps = pauses(stall, seed)
    valid, ready, payload = (getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload"))
    for word in payloads:
        while next(gaps):
            await RisingEdge(dut.clk)
        payload.value, valid.value = word, 1
        await RisingEdge(dut.clk)
        while ready.value != 1:
            await RisingEdge(dut.clk)
        valid.value = 0
