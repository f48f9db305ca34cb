"""An accelerator without hardware: programs go to the interpreter."""

from contextlib import contextmanager

import numpy as np
from numpy.lib.stride_tricks import as_strided

from etalstm.device.machine.accelerator import LoadedProgram
from etalstm.device.machine.faults import LogFullError
from etalstm_hw import contract
from etalstm_hw.contract import Status
from etalstm_hw.contract.image import INSTRUCTION_BYTES, words_of
from tests.plan.interpreter import Interpreter

MEMORY_BYTES = 1 << 26


class InterpretedMemory:
    """The part of a transport that a session uses: memory."""

    memory_bytes = MEMORY_BYTES

    def __init__(self):
        self.bytes = np.zeros(MEMORY_BYTES, np.uint8)

    def write_memory(self, address, values):
        data = np.frombuffer(values, np.uint8) if isinstance(values, bytes) else values.reshape(-1).view(np.uint8)
        self.bytes[address : address + data.size] = data

    def read_memory(self, address, size):
        return self.bytes[address : address + size].copy()

    def close(self):
        """There is nothing to let go of."""


class InterpretedAccelerator:
    """What :class:`etalstm.device.machine.accelerator.Accelerator` offers to a session.

    Members
    -------
    rows : (int, int)
        Rows of the LOAD_ROWS of the last program that had any, and how many of them were left out.
    """

    def __init__(self, config, early=True):
        self.early = early
        self.config, self.transport = config, InterpretedMemory()
        self.rows = (0, 0)
        self._parameters = np.array([1, 0, -0.0] + [0] * (contract.PARAMETERS - 3), np.float32)
        self._groups = 1

    def set_groups(self, count):
        self._groups = count

    def load(self, program, address):
        self.transport.write_memory(address, program)
        return LoadedProgram(address, len(program) // INSTRUCTION_BYTES)

    def set_windows(self, base, stride, size=None):
        self._base, self._stride, self._size = base, stride, stride if size is None else size

    def set_architecture(self, architecture):
        """The interpreter has no clock."""

    def set_parameter(self, number, value):
        self._parameters[number] = value

    def run(self, program):
        with self.running(program):
            pass

    @contextmanager
    def running(self, program):
        """What the block does must not touch what the program does: it runs before or after."""
        if self.early:
            self._execute(program)
        yield
        if not self.early:
            self._execute(program)

    def _execute(self, program):
        config = self.config
        machine = Interpreter(config, self._size, self._groups)
        machine.parameters = self._parameters
        shape, strides = machine.windows.shape, (self._stride, config.lanes * 4, 4)
        machine.windows = as_strided(self.transport.bytes[self._base :].view(np.float32), shape, strides)
        image = self.transport.read_memory(program.address, program.instructions * INSTRUCTION_BYTES).tobytes()
        try:
            machine.run(words_of(image))
        except OverflowError as error:
            raise LogFullError(str(error), Status.OVERFLOW, "STORE", machine.stores) from error
        self._weight_bytes = machine.weight_bytes
        if machine.rows_seen:
            self.rows = machine.rows_seen, machine.rows_left_out

    def counters(self):
        """Of the last program: the interpreter has no clock, and counts weights only."""
        return {"cycles": 0, "read_bytes": {"weights": self._weight_bytes}}
