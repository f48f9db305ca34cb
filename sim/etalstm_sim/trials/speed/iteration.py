"""One training iteration, the same for every simulator, and its cost."""

import time
import zlib
from contextlib import contextmanager

import numpy as np

from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.shape import TrainingShape
from etalstm.device.transport import Transport
from etalstm.network.shape import initial_parameters
from etalstm_hw.config import Config

SEED = 1


class TimedAccelerator(Accelerator):
    """An accelerator that adds up how long its programs took.

    Members
    -------
    seconds : float
        CPU time of the process from each program's start until the host notices its end, so that other processes count
        little.
    """

    seconds = 0.0

    @contextmanager
    def running(self, program, timeout_seconds=None):
        """Run a program and count its CPU time; like :meth:`Accelerator.running`."""
        started = time.process_time()
        with super().running(program, timeout_seconds):
            yield
        self.seconds += time.process_time() - started


def run_iteration(transport: Transport, config: Config, shape: TrainingShape, runs: int = 1) -> dict:
    """Run the three programs of an iteration of a random network on random data: forward, backward, update.

    Parameters
    ----------
    transport : Transport
        To a machine of the configuration.
    config : Config
    shape : TrainingShape
    runs : int
        Runs, of which the fastest counts.

    Returns
    -------
    dict
        ``cycles`` of the programs; their ``seconds`` of CPU time; ``checksum`` of outputs and updated weights.
    """
    accelerator = TimedAccelerator(transport, config)
    session = HardwareDevice("timed", "", accelerator).create(shape)
    x = np.random.default_rng(SEED).standard_normal(shape.x_shape, np.float32)
    found = []
    for _ in range(runs):
        session.load(initial_parameters(shape.network, SEED))
        accelerator.seconds = 0.0
        y = session.forward(x).y
        session.backward(y)
        session.update(0.1, 0.9, 1.0)
        cycles, checksum = session.counters()["cycles"], 0
        for words in (y, *(layer.weights for layer in session.parameters())):
            checksum = zlib.crc32(np.ascontiguousarray(words).tobytes(), checksum)
        found.append({"cycles": cycles, "seconds": accelerator.seconds, "checksum": checksum})
    return min(found, key=lambda one: one["seconds"])
