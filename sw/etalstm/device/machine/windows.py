"""The arrays of a plan in the machine's memory, as the host reads and writes them."""

from collections.abc import Iterable

import numpy as np

from etalstm.device.transport import Transport
from etalstm.plan.memory.memory_map import Array, MemoryMap, pack, unpack
from etalstm.plan.memory.placement import Placement


class Windows:
    """A session's windows: the same memory map for each channel.

    Parameters
    ----------
    transport : Transport
    memory : MemoryMap
    placement : Placement
        Where the windows are.
    before : Windows, optional
        Those that these follow: what they have moved counts on.

    Members
    -------
    moved : dict
        Bytes the host has ``read`` and ``written``, each by the arrays' kinds.
    """

    def __init__(self, transport: Transport, memory: MemoryMap, placement: Placement, before: "Windows | None" = None):
        self._transport, self._memory, self._placement = transport, memory, placement
        self.moved: dict[str, dict[str, int]] = before.moved if before else {"read": {}, "written": {}}

    def count_anew(self) -> None:
        """Forget what has been moved so far."""
        self.moved = {"read": {}, "written": {}}

    def write(self, array: Array, values: np.ndarray) -> None:
        """Write an array of the host, float32, of ``array.shape``."""
        self.write_words(array, [*pack(array, values)] * array.copies)

    def read(self, array: Array) -> np.ndarray:
        """Read an array of the host, float32, of ``array.shape``."""
        return unpack(array, self._read(array, array.copy_words[0]))

    def write_words(self, array: Array, words: Iterable[np.ndarray]) -> None:
        """Write an array as the channels hold it: 32-bit words, (channels, vectors, lanes)."""
        for address, window in zip(self._addresses(array), words, strict=True):
            self._transport.write_memory(address, np.ascontiguousarray(window))
        self._count("written", array, self._placement.channels)

    def read_words(self, array: Array) -> np.ndarray:
        """Read an array as the channels hold it: float32, (channels, vectors, lanes)."""
        return self._read(array, self._placement.channels)

    def _read(self, array: Array, channels: int) -> np.ndarray:
        """Read what the first channels hold of an array."""
        size = array.vectors * self._memory.vector_bytes
        windows = [self._transport.read_memory(address, size) for address in self._addresses(array)[:channels]]
        self._count("read", array, channels)
        return np.stack(windows).view(np.float32).reshape(channels, *array.words[1:])

    def _addresses(self, array: Array) -> list[int]:
        offset = array.first * self._memory.vector_bytes
        return [self._placement.window(channel).start + offset for channel in range(self._placement.channels)]

    def _count(self, direction: str, array: Array, channels: int) -> None:
        kinds = self.moved[direction]
        size = array.vectors * self._memory.vector_bytes * channels
        kinds[array.kind] = kinds.get(array.kind, 0) + size
