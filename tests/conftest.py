"""Signals reach the tests, and the processes that they start, also where a background job or ``nohup`` ignores them.

With ``ETALSTM_WAVES`` set, what runs in Amaranth's simulator writes a waveform, as benches do. At the end the paths of
all waveforms are listed.
"""

import os
import re
import signal
import sys
import tempfile
from pathlib import Path

from amaranth.sim import Simulator

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

_RECORDED: list[Path] = []


def _record(run):
    """Give a ``Simulator.run`` that writes a waveform, whose name is that of the test."""

    def recorded(simulator):
        name = re.sub(r"\W+", "_", os.environ.get("PYTEST_CURRENT_TEST", "simulation").rpartition("::")[2])
        path = Path(tempfile.mkdtemp(prefix="etalstm-waves-")) / f"{name}.vcd"
        _RECORDED.append(path)
        with simulator.write_vcd(str(path)):
            run(simulator)

    return recorded


if os.environ.get("ETALSTM_WAVES"):
    Simulator.run = _record(Simulator.run)


def pytest_terminal_summary(terminalreporter):
    benches = sys.modules.get("etalstm_sim.benches.bench")
    for path in [*_RECORDED, *(benches.WRITTEN if benches else [])]:
        terminalreporter.write_line(f"waveform: {path}")
