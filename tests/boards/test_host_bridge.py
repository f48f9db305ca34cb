from pathlib import Path

import pytest

from etalstm_boards.host_bridge import HostBridge
from etalstm_sim.benches.bench import run_bench
from etalstm_sim.benches.identified import Identified


@pytest.mark.parametrize("host_bits", [512, 256])
def test_bridge(tmp_path, host_bits):
    run_bench(Identified(HostBridge(host_bits)), "bridge", Path(__file__).with_name("bench_host_bridge.py"), tmp_path)


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match="must have 256 or 512 bits, got 128"):
        HostBridge(128)
