"""Runs the cocotb benches of the LOAD and STORE engines: both on one port, in two shapes."""

from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import AXI4, join
from etalstm_hw.contract import BINARY32, INSTRUCTION_BITS, KIND_BITS, PARAMETERS, Opcode, Status
from etalstm_hw.dma.load import LoadEngine
from etalstm_hw.dma.store import StoreEngine
from etalstm_hw.stream import LaneRead, LaneWrite, Windows, instruction_layout, vector_layout
from etalstm_sim.benches.bench import run_bench

ADDRESS_BITS = 24
CHANNELS = 3
CHANNEL = 1
# Lanes, words of a beat, words that are decompressed in a cycle.
SHAPES = {"one_beat_vectors": (4, 4, 2), "two_beat_vectors": (16, 8, 8)}


class Engines(wiring.Component):
    """A channel's two engines on a port of their own."""

    def __init__(self, lanes, beat_words, decompressor_words):
        self._engines = {
            "load": LoadEngine(
                BINARY32, lanes, beat_words, ADDRESS_BITS, depth=64, decompressor_words=decompressor_words
            ),
            "store": StoreEngine(BINARY32, lanes, beat_words, ADDRESS_BITS),
        }
        members = {
            "port0": Out(AXI4(ADDRESS_BITS, 32 * beat_words, id_bits=1)),
            "windows": In(Windows(ADDRESS_BITS)),
            "load_i": In(stream.Signature(instruction_layout(Opcode.LOAD))),
            "load_write": Out(stream.Signature(LaneWrite(BINARY32, lanes, beat_words))),
            "store_i": In(stream.Signature(INSTRUCTION_BITS)),
            "store_read": Out(stream.Signature(LaneRead())),
            "store_vector": In(vector_layout(BINARY32, lanes)),
            "store_parameters": In(data.ArrayLayout(32, PARAMETERS)),
        }
        for name in self._engines:
            members |= {f"{name}_{pulse}": Out(1) for pulse in ("done", "beats", "busy")}
            members |= {f"{name}_kind": Out(KIND_BITS), f"{name}_status": Out(Status), f"{name}_drain": In(1)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        load, store = self._engines.values()
        join(m, self.port0, load.axi, store.axi)
        wiring.connect(m, wiring.flipped(self.load_i), load.i)
        wiring.connect(m, wiring.flipped(self.load_write), load.write)
        wiring.connect(m, wiring.flipped(self.store_i), store.i)
        wiring.connect(m, wiring.flipped(self.store_read), store.read)
        m.d.comb += [store.vector.eq(self.store_vector), store.parameters.eq(self.store_parameters)]
        for name, engine in self._engines.items():
            m.submodules[name] = engine
            m.d.comb += [engine.group.position.eq(CHANNEL), engine.group.size.eq(CHANNELS), engine.group.count.eq(1)]
            m.d.comb += [engine.windows.eq(self.windows), engine.drain.eq(getattr(self, f"{name}_drain"))]
            for member in ("done", "beats", "kind", "busy", "status"):
                m.d.comb += getattr(self, f"{name}_{member}").eq(getattr(engine, member))
        return m


@pytest.mark.parametrize("bench", ["load", "store", "compress", "decompress"])
@pytest.mark.parametrize("shape", SHAPES)
def test_engines(shape, bench, tmp_path):
    lanes, beat_words, words = SHAPES[shape]
    sizes = {"LANES": lanes, "BEAT_WORDS": beat_words, "CHANNEL": CHANNEL, "CHANNELS": CHANNELS}
    sizes["DECOMPRESSOR_WORDS"] = words
    run_bench(
        Engines(lanes, beat_words, words),
        f"engines_{shape}",
        Path(__file__).with_name(f"bench_{bench}.py"),
        tmp_path,
        environment={name: str(value) for name, value in sizes.items()} | {"ADDRESS_BITS": str(ADDRESS_BITS)},
    )
