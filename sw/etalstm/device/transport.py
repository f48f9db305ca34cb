"""How the driver reaches a machine: memory, registers, interrupt. It cannot tell what is behind them."""

from abc import ABC, abstractmethod
from typing import Self

import numpy as np

ALIGNMENT_BYTES = 4


class Transport(ABC):
    """Memory, registers and interrupt of one machine. Usable as a context manager that closes it.

    What is checked here is checked once for all; a transport implements the hooks, whose names begin with an
    underscore, and ``wait``, ``reset``, ``close``.

    The memory has `memory_bytes`, from address 0. An interrupt may be lost: after `poll_seconds` without one the
    machine itself is asked.
    """

    memory_bytes: int
    poll_seconds = 0.5

    def read_memory(self, address: int, size: int) -> np.ndarray:
        """Copy `size` bytes out of the machine's memory: uint8, (size,).

        ``ValueError`` if the bytes are not all in memory, or address or size is no multiple of 4.
        """
        self._check(address, size)
        return self._read_memory(address, size)

    def write_memory(self, address: int, values: np.ndarray | bytes) -> None:
        """Copy bytes, or a contiguous array of any type, into the machine's memory; like :meth:`read_memory`."""
        if isinstance(values, np.ndarray):
            if not values.flags.c_contiguous:
                raise ValueError(f"an array of shape {values.shape} must be contiguous to be written to memory")
            data = values.reshape(-1).view(np.uint8)
        else:
            data = np.frombuffer(values, np.uint8)
        self._check(address, data.size)
        self._write_memory(address, data)

    @abstractmethod
    def read_register(self, register: int) -> int:
        """Read a 32-bit register at a byte offset."""

    @abstractmethod
    def write_register(self, register: int, value: int) -> None:
        """Write a 32-bit register at a byte offset."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Wait for the interrupt, at most about so long; say whether it is there."""

    @abstractmethod
    def reset(self) -> None:
        """Reset the machine: it forgets its registers and what it was doing; the memory keeps its bytes."""

    def condition(self) -> str:
        """Describe in a few words what the machine sits on and how that is; empty if there is nothing to tell."""
        return ""

    def lost_words(self) -> int:
        """Count the words of memory that were found to be lost since the last call; 0 where nothing counts them.

        A word is lost if more of its bits are wrong than the memory's error correction can mend.
        """
        return 0

    @abstractmethod
    def close(self) -> None:
        """Let go of the machine. Closing twice does nothing; any other call afterwards raises ``DeviceError``."""

    @abstractmethod
    def _read_memory(self, address: int, size: int) -> np.ndarray:
        """Copy bytes out; the range is checked."""

    @abstractmethod
    def _write_memory(self, address: int, data: np.ndarray) -> None:
        """Copy uint8 in; the range is checked."""

    def _check(self, address: int, size: int) -> None:
        if address % ALIGNMENT_BYTES or size % ALIGNMENT_BYTES:
            raise ValueError(f"address and size must be multiples of {ALIGNMENT_BYTES}, got {address:#x} and {size}")
        if address < 0 or size < 0 or address + size > self.memory_bytes:
            where = f"{size} bytes at address {address:#x}"
            raise ValueError(f"{where} are not all in the memory of {self.memory_bytes} bytes")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
