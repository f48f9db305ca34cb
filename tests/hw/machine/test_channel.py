"""Runs the cocotb bench of a whole channel: its Verilog, with the arithmetic of the machine and a memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from etalstm_hw.config import preset
from etalstm_sim.benches.bench import run_bench
from etalstm_sim.benches.identified import identified_channel

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
    top = f"channel_{name}"
    run_bench(identified_channel(config, top), top, module, tmp_path, environment=environment)
