"""Signals reach the tests, and the processes that they start, also where a background job or ``nohup`` ignores them.

At the end the paths of the waveforms that benches have written are listed.
"""

import signal
import sys

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter):
    benches = sys.modules.get("etalstm_sim.benches.bench")
    for path in benches.WRITTEN if benches else []:
        terminalreporter.write_line(f"waveform: {path}")
