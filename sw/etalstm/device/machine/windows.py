"""The arrays of a plan in the machine's memory: how the host reads, writes and compares them."""

import zlib
from collections.abc import Iterable, Mapping

import numpy as np

from etalstm.device.transport import Transport
from etalstm.errors import DamagedMemoryError
from etalstm.formats.codec import round_bf16
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.memory_map import Array, MemoryMap, Placement, pack, unpack, values_of
from etalstm.plan.memory.operands import Location
from etalstm_hw.contract import STREAM_INDEX


class Windows:
    """A session's windows: the same memory map for each channel.

    Windows that follow others, `before`, count on what those have moved. `moved` are the bytes that the host has
    ``read`` and ``written``, each by the arrays' kinds.
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

    def end_of(self, index: Location) -> int:
        """Read the largest beat, over channels, at which the stream of an index ends."""
        words = self.read_words(index.array.section(index.vector, 1)).view(np.uint32)[:, 0]
        start, beats = (words[:, STREAM_INDEX.index(name)] for name in ("start", "beats"))
        return int((start + beats).max())

    def _read(self, array: Array, channels: int) -> np.ndarray:
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


class Scrubber:
    """Remembers what a session has written, and compares the memory with it.

    Between two programs nothing may change in the memory. Three kinds of arrays are known to the host:

    - **Copies.** The passes read each weight matrix from two copies, and groups of channels have copies of their own.
      All copies must have the same bits. Where the copies are bfloat16, there is a float32 matrix for the update
      besides. Its weights, rounded, must have the copies' bits.
    - **Inputs.** An array that only the host writes in a pass must have the bits of the host's array. Inputs are not
      copied: nobody may change the host's arrays before the next pass.
    - **State.** Weights, biases and velocities must keep their digest from one update to the next. The digest is that
      of the host's array. So it does not depend on where the machine's array lies.

    The digest is a CRC of 32 bits. It finds every change that lies within 32 bits in a row, so every change of one
    word. Of other changes it overlooks one in 2^32. A cryptographic digest would take longer, and nobody forges the
    memory.

    Not compared are arrays that programs overwrite (among them h, c, gradients, intermediates), and words that hold no
    element.
    """

    def __init__(self):
        self._inputs: dict[str, tuple[Array, np.ndarray, int | None]] = {}  # by the array's name
        self._digests: dict[str, int] = {}  # likewise

    def loaded(self, array: Array, values: np.ndarray) -> None:
        """Note an array of the state that the host has written."""
        self._digests[array.name] = _digest(round_bf16(values) if array.narrow else values)

    def moved(self, layers: Iterable[LayerArrays], values: Mapping[str, np.ndarray]) -> None:
        """Note that the state has moved to the arrays of another plan; their `values`, by name, were read before.

        An array that has a digest keeps the old one. So a change before the move is found after it, too.
        """
        self._inputs.clear()
        names = {array.name for arrays in layers for array in _state(arrays)}
        for name in (names & values.keys()) - self._digests.keys():
            self._digests[name] = _digest(values[name])

    def begin_pass(self) -> None:
        """Forget the inputs of the passes before."""
        self._inputs.clear()

    def wrote(self, array: Array, values: np.ndarray, layer: int | None) -> None:
        """Note an input that the host has written, of a layer or of all."""
        self._inputs[array.name] = array, values, layer

    def updated(self) -> None:
        """Forget the digests: an update changes the state."""
        self._digests.clear()

    def compare(self, layers: Iterable[LayerArrays], windows: Windows) -> None:
        """Compare the memory with all that was noted, and make the digests that are missing.

        :class:`DamagedMemoryError` names the first difference.
        """
        for arrays in layers:
            self._compare_state(arrays, windows)
        for array, values, layer in self._inputs.values():
            _compare_elements(_named(array, layer), array, windows.read_words(array), values, "the host wrote")

    def _compare_state(self, arrays: LayerArrays, windows: Windows) -> None:
        """Compare a layer's state: the copies first, as they tell which element differs."""
        state = {array.name: _agreed(array, windows, arrays.number) for array in _state(arrays)}
        rows, *others = arrays.matrices
        for matrix in others:
            stored = state[matrix.name] if matrix.narrow == rows.narrow else round_bf16(state[matrix.name])
            found, expected = _bits(stored), _bits(state[rows.name])
            wrong = np.flatnonzero(found != expected)
            bits = found.ravel()[wrong], expected.ravel()[wrong]
            _refuse(_named(matrix, arrays.number), matrix.shape, wrong, *bits, f"{rows.name} has")
        for name, values in state.items():
            self._compare_digest(f"layer {arrays.number}: {name}", name, values)

    def _compare_digest(self, described: str, name: str, values: np.ndarray) -> None:
        found = _digest(values)
        expected = self._digests.setdefault(name, found)
        if found != expected:
            raise DamagedMemoryError(
                f"{described} has changed since it was written: its digest is {found:#010x}, it was {expected:#010x}"
            )


def _state(arrays: LayerArrays) -> tuple[Array, ...]:
    return (*arrays.matrices, arrays.bias, arrays.velocity, arrays.bias_velocity)


def _agreed(array: Array, windows: Windows, layer: int) -> np.ndarray:
    """Read an array. Words that hold the same element must have the same bits."""
    words = windows.read_words(array)
    values = unpack(array, words[: array.copy_words[0]])
    _compare_elements(_named(array, layer), array, words, values, "another channel has")
    return values


def _compare_elements(described: str, array: Array, words: np.ndarray, values: np.ndarray, who: str) -> None:
    """Compare what all channels hold of an array with the host's `values`, bit for bit."""
    stored = _bits(values_of(array, words)).reshape(array.copies, *array.elements.shape)
    expected = np.broadcast_to(_bits(values).ravel()[array.elements], stored.shape)
    wrong = (stored != expected) & (array.elements >= 0)
    numbers = np.broadcast_to(array.elements, stored.shape)[wrong]
    _refuse(described, array.shape, numbers, stored[wrong], expected[wrong], who)


def _refuse(described: str, shape, numbers: np.ndarray, found: np.ndarray, expected: np.ndarray, who: str) -> None:
    """Raise for the first of some elements of an array, by their numbers, that have other bits than expected."""
    if numbers.size:
        at = [int(number) for number in np.unravel_index(numbers[0], shape)]
        words = f"{described} at {at} is {found[0]:#010x}, {who} {expected[0]:#010x}"
        raise DamagedMemoryError(f"{words}; {numbers.size:,} words differ")


def _named(array: Array, layer: int | None) -> str:
    return array.name if layer is None else f"layer {layer}: {array.name}"


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def _digest(values: np.ndarray) -> int:
    return zlib.crc32(_bits(values).data)
