"""One forward pass, the same for every simulator, with what it took."""

import time
import zlib

import numpy as np

from etalstm.device.accelerator import Accelerator
from etalstm.device.api import TrainingShape
from etalstm.device.hardware import HardwareDevice
from etalstm.device.transport import Transport
from etalstm.hw.config import preset
from etalstm.network import initial_parameters

SEED = 1


class TimedAccelerator(Accelerator):
    """An accelerator that knows how long its last program took.

    Members
    -------
    seconds : float
        From the program's start to the host's notice of its end.
    """

    seconds = 0.0

    def run(self, program, timeout_seconds=None):
        """Run a program to its end, by the clock; like :meth:`Accelerator.run`."""
        started = time.perf_counter()
        super().run(program, timeout_seconds)
        self.seconds = time.perf_counter() - started


def run_forward(transport: Transport, preset_name: str, shape: TrainingShape, runs: int = 1) -> dict:
    """Run the forward pass of a random network on random data.

    Parameters
    ----------
    transport : Transport
        To a machine of the preset.
    preset_name : str
    shape : TrainingShape
    runs : int
        Runs, of which the fastest counts.

    Returns
    -------
    dict
        ``cycles`` of a pass; ``seconds``; ``checksum`` of the outputs' words.
    """
    accelerator = TimedAccelerator(transport, preset(preset_name))
    session = HardwareDevice("timed", preset_name, accelerator).create(shape)
    session.load(initial_parameters(shape.network, SEED))
    x = np.random.default_rng(SEED).standard_normal(shape.x_shape, np.float32)
    found = []
    for _ in range(runs):
        y = session.forward(x).y
        cycles, checksum = session.counters()["cycles"], zlib.crc32(np.ascontiguousarray(y).tobytes())
        found.append({"cycles": cycles, "seconds": accelerator.seconds, "checksum": checksum})
    return min(found, key=lambda one: one["seconds"])
