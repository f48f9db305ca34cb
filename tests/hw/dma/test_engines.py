"""Runs the cocotb benches of the LOAD and STORE engines: both on one port, in two shapes."""

from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from etalstm.hw.axi import AXI4, join
from etalstm.hw.contract import BINARY32, KIND_BITS, Opcode, Status
from etalstm.hw.dma.load import LoadEngine
from etalstm.hw.stream import LaneWrite, Windows, instruction_layout
from etalstm.sim.bench import run_bench

ADDRESS_BITS = 24
CHANNELS = 3
CHANNEL = 1
SHAPES = {"one_beat_vectors": (4, 4), "two_beat_vectors": (16, 8)}  # lanes, words of a beat


class Engines(wiring.Component):
    """A channel's two engines on a port of their own."""

    def __init__(self, lanes, beat_words):
        self._load = LoadEngine(BINARY32, lanes, beat_words, ADDRESS_BITS, CHANNEL, depth=64)
        super().__init__(
            {
                "port0": Out(AXI4(ADDRESS_BITS, 32 * beat_words, id_bits=1)),
                "windows": In(Windows(ADDRESS_BITS)),
                "load_i": In(stream.Signature(instruction_layout(Opcode.LOAD))),
                "load_write": Out(stream.Signature(LaneWrite(BINARY32, lanes))),
                "load_done": Out(1),
                "load_beats": Out(1),
                "load_kind": Out(KIND_BITS),
                "load_abort": In(1),
                "load_busy": Out(1),
                "load_status": Out(Status),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.load = load = self._load
        join(m, self.port0, load.axi)
        wiring.connect(m, wiring.flipped(self.load_i), load.i)
        wiring.connect(m, wiring.flipped(self.load_write), load.write)
        m.d.comb += [load.windows.eq(self.windows), load.abort.eq(self.load_abort)]
        for name in ("done", "beats", "kind", "busy", "status"):
            m.d.comb += getattr(self, f"load_{name}").eq(getattr(load, name))
        return m


@pytest.mark.parametrize("bench", ["load"])
@pytest.mark.parametrize("shape", SHAPES)
def test_engines(shape, bench, tmp_path):
    lanes, beat_words = SHAPES[shape]
    sizes = {"LANES": lanes, "BEAT_WORDS": beat_words, "CHANNEL": CHANNEL, "CHANNELS": CHANNELS}
    run_bench(
        Engines(lanes, beat_words),
        f"engines_{shape}",
        Path(__file__).with_name(f"bench_{bench}.py"),
        tmp_path,
        environment={name: str(value) for name, value in sizes.items()} | {"ADDRESS_BITS": str(ADDRESS_BITS)},
    )
