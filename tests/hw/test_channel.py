"""Runs the cocotb bench of a whole channel: its Verilog, with the arithmetic of the machine and a memory."""

from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from etalstm.hw.axi import AXI4, join
from etalstm.hw.channel import Channel
from etalstm.hw.config import preset
from etalstm.sim.bench import run_bench

SMALL = replace(
    preset("test"),
    weight_depth=64,
    scratch_depth=64,
    queue_depth=32,
    bias_depth=8,
    address_bits=24,
    broadcast_words=128,
)
CONFIGS = {
    "one_beat_vectors": SMALL,
    "two_beat_vectors": replace(SMALL, lanes=16, activation_units=2),
}


class Ported(wiring.Component):
    """A channel on a port with the IDs that the memory model wants."""

    def __init__(self, config):
        self._channel = channel = Channel(config)
        members = {name: member for name, member in channel.signature.members.items() if name != "axi"}
        port = Out(AXI4(config.address_bits, config.beat_bits, id_bits=1))
        super().__init__(members | {"port0": port})

    def elaborate(self, platform):
        m = Module()
        m.submodules.channel = channel = self._channel
        join(m, self.port0, channel.axi)
        for name, member in channel.signature.members.items():
            mine, inner = getattr(self, name, None), getattr(channel, name)
            if name == "axi":
                continue
            if member.is_signature:
                wiring.connect(m, wiring.flipped(mine), inner)
            else:
                m.d.comb += mine.eq(inner) if member.flow is Out else inner.eq(mine)
        return m


@pytest.mark.parametrize("name", CONFIGS)
def test_channel(name, tmp_path):
    config = CONFIGS[name]
    sizes = {
        "LANES": config.lanes,
        "UNITS": config.activation_units,
        "ADDRESS_BITS": config.address_bits,
        "BEAT_WORDS": config.beat_words,
    }
    environment = {key: str(value) for key, value in sizes.items()}
    module = Path(__file__).with_name("bench_channel.py")
    run_bench(Ported(config), f"channel_{name}", module, tmp_path, environment=environment)
