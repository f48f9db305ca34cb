"""The memory map: named arrays in every channel's window, host arrays in them, and where the windows lie."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from etalstm.formats.codec import pack_bf16, unpack_bf16
from etalstm.network.slices import Parts
from etalstm.plan.memory.tiling import ceil_div
from etalstm_hw.config import Config
from etalstm_hw.contract import PAGE_BYTES


def whole_pages(count: int) -> int:
    """Give the first multiple of a page from `count` bytes on: where windows and programs may begin."""
    return ceil_div(count, PAGE_BYTES) * PAGE_BYTES


@dataclass(frozen=True)
class Array:
    """A named run of vectors at the same address of every channel's window.

    Members
    -------
    kind : str
        What it is counted as in the footprint: weights, activations, intermediates, deltas, optimizer.
    first, vectors : int     first vector in the window, and how many there are
    words : tuple of int     shape of what the channels hold of it: (channels, vectors, lanes)
    shape : tuple of int     shape of the host's array
    make_elements : function
        Makes `elements`. For a large array they take twice the memory of its words, so they are not made before data
        moves.
    padding : float          what words hold that are no element
    copies : int             1, or the number of groups of channels if each group holds the whole array
    narrow : bool            a word holds two elements as bfloat16: the lower half, then the upper one
    exchanged : bool         groups read what other groups have stored there, more than once in a program
    zeroed : bool            what no program writes there must be zero
    """

    name: str
    kind: str
    first: int
    words: tuple[int, int, int]
    shape: tuple[int, ...]
    make_elements: Callable[[], np.ndarray] = field(compare=False)
    padding: float = 0.0
    copies: int = 1
    exchanged: bool = False
    narrow: bool = False
    zeroed: bool = False

    @property
    def copy_words(self) -> tuple[int, int, int]:
        """Shape of what the channels hold that share one copy: (channels, vectors, lanes)."""
        return self.words[0] // self.copies, *self.words[1:]

    @property
    def vectors(self) -> int:
        """Length, in vectors of each window."""
        return self.words[1]

    @cached_property
    def elements(self) -> np.ndarray:
        """Which element of the host's array each word is, int64, of shape `copy_words`; -1 is padding.

        Of a narrow array: which element each half is, with an axis of two behind.
        """
        return self.make_elements().reshape(*self.copy_words, *([2] if self.narrow else []))

    @property
    def raw(self) -> bool:
        """It holds no array of the host's: streams, their indices, the gates of dense cells."""
        return self.shape == (0,)

    def section(self, first: int, vectors: int) -> "Array":
        """Take `vectors` vectors, from the `first`; the host's array stays the whole one."""
        words = self.words[0], vectors, self.words[2]
        elements = lambda: self.elements[:, first : first + vectors]  # noqa: E731
        return replace(self, first=self.first + first, words=words, make_elements=elements)


def batch_elements(parts: Parts, make_elements: Callable[[], np.ndarray], inner: int) -> np.ndarray:
    """Elements of an array of the whole batch in the windows of all groups, from those of a part in its group's.

    `make_elements` makes those of a part, int64, (channels of a group, ...). `inner` counts the elements of the axes
    behind the batch axis. The result is int64, (channels, ...).
    """
    elements = make_elements()
    if parts.count == 1:
        return elements
    outer, place, element = elements // (parts.places * inner), elements // inner % parts.places, elements % inner
    groups = []
    for part in range(parts.count):
        sequence = parts.sequences(part)[place]
        whole = (outer * parts.batch + sequence) * inner + element
        groups.append(np.where((elements < 0) | (sequence < 0), -1, whole))
    return np.concatenate(groups)


def groups_elements(make_elements: Callable[[], np.ndarray], groups: int, size: int) -> np.ndarray:
    """Elements of an array of which each group has one, `size` long, from those of one in its group's windows."""
    elements = make_elements()
    return np.concatenate([np.where(elements < 0, -1, elements + group * size) for group in range(groups)])


class MemoryMap:
    """Allocates arrays one after the other; every channel's window has the same layout.

    Arrays with a batch axis are divided among the groups of channels: group g holds part g of the batch. Arrays in
    shards are divided, too: each group holds some of the rows. Every group holds a copy of any other array.

    Parameters
    ----------
    config : Config    the machine of one group
    parts : Parts      the parts of the batch, one for each group

    Members
    -------
    groups, channels : int    groups of channels, and channels of all of them
    arrays : dict from name to Array
    """

    def __init__(self, config: Config, parts: Parts):
        self._config, self._parts = config, parts
        self.groups, self.channels = parts.count, parts.count * config.channels
        self._vectors = 0
        self.arrays: dict[str, Array] = {}
        self._of_groups: set[str] = set()

    def add(
        self, name: str, kind: str, vectors: int, elements: Callable[[], np.ndarray], shape: tuple[int, ...],
        padding: float = 0.0, batch_axis: int | None = None, narrow: bool = False,
    ) -> Array:  # fmt: skip
        """Allocate an array of so many vectors, whose words are these `elements` of a host array of `shape`.

        The elements of a `narrow` array are halves of words.
        With a `batch_axis`, `elements` and `shape` are those of a part of the batch; the host's array has all of it.
        """
        if batch_axis is None:
            return self._add(name, kind, vectors, elements, shape, padding=padding, copies=self.groups, narrow=narrow)
        return self._add(name, kind, vectors, *self.of_batch(elements, shape, batch_axis), padding=padding)

    def add_of_groups(
        self, name: str, kind: str, vectors: int, elements: Callable[[], np.ndarray], shape: tuple[int, ...]
    ) -> Array:
        """Allocate an array of which each group has one of its own; the host's array has an axis of groups in front.

        `vectors`, `elements` and `shape` are those of one group's.
        """
        make_elements = partial(groups_elements, elements, self.groups, math.prod(shape))
        self._of_groups.add(name)
        return self._add(name, kind, vectors, make_elements, (self.groups, *shape))

    def add_shards(
        self, name: str, kind: str, vectors: int, elements: Callable[[], np.ndarray], shape: tuple[int, ...]
    ) -> Array:
        """Allocate an array of which each group holds a part, `vectors` in each window.

        `elements` is that of all groups' channels. Elements that several groups hold must be equal.
        """
        return self._add(name, kind, vectors, elements, shape)

    def of_batch(
        self, elements: Callable[[], np.ndarray], shape: tuple[int, ...], axis: int
    ) -> tuple[Callable[[], np.ndarray], tuple[int, ...]]:
        """Give what makes all groups' elements, and the host's shape, from those of a part of the batch."""
        whole = *shape[:axis], self._parts.batch, *shape[axis + 1 :]
        return partial(batch_elements, self._parts, elements, math.prod(shape[axis + 1 :])), whole

    def _add(
        self, name: str, kind: str, vectors: int, elements: Callable[[], np.ndarray], shape: tuple[int, ...],
        **more: Any,
    ) -> Array:  # fmt: skip
        if name in self.arrays:
            raise ValueError(f"array {name!r} is allocated already")
        words = self.channels, vectors, self._config.lanes
        self.arrays[name] = array = Array(name, kind, self._vectors, words, shape, elements, **more)
        self._vectors += vectors
        return array

    def add_raw(self, name: str, kind: str, vectors: int, *, exchanged: bool = False, zeroed: bool = False) -> Array:
        """Allocate memory that holds no array of the host's; `zeroed` memory is zero at first."""
        elements = partial(np.broadcast_to, np.int64(-1), (self.channels, vectors, self._config.lanes))
        return self._add(name, kind, vectors, elements, (0,), exchanged=exchanged, zeroed=zeroed)

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector in memory."""
        return self._config.vector_beats * self._config.beat_bytes

    @property
    def window_bytes(self) -> int:
        """Size of a channel's window."""
        return whole_pages(self._vectors * self.vector_bytes)

    def place_of(self, beat: int, steps: int) -> str:
        """Name the array that has a beat of a window; empty where none has.

        ``h0[2]`` is entry 2 of an array with so many `steps`, ``rows0+16`` lies 16 vectors behind the first of rows0.
        """
        vector = beat // self._config.vector_beats
        for array in self.arrays.values():
            behind = vector - array.first
            if 0 <= behind < array.vectors:
                if len(array.shape) > 2 and array.shape[0] in (steps, steps + 1) and array.name not in self._of_groups:
                    return f"{array.name}[{behind // (array.vectors // array.shape[0])}]"
                return f"{array.name}+{behind}" if behind else array.name
        return ""

    def footprint(self) -> dict[str, int]:
        """Bytes by kind, all channels together, padding included."""
        kinds = dict.fromkeys(sorted({array.kind for array in self.arrays.values()}), 0)
        for array in self.arrays.values():
            kinds[array.kind] += array.vectors * self.vector_bytes * self.channels
        return kinds


def pack(array: Array, values: np.ndarray) -> np.ndarray:
    """Lay a host array out as the channels' windows hold it: float32, from ``array.shape`` to ``array.copy_words``.

    Elements of a narrow array are rounded.
    """
    padded = np.append(np.asarray(values, np.float32).ravel(), np.float32(array.padding))
    if array.narrow:
        return pack_bf16(padded[array.elements[..., 0]], padded[array.elements[..., 1]])
    return padded[array.elements]


def unpack(array: Array, words: np.ndarray) -> np.ndarray:
    """Gather a host array from what the windows of one copy's channels hold: the inverse of :func:`pack`."""
    values = np.zeros(int(np.prod(array.shape)) + 1, np.float32)
    words = words.reshape(array.copy_words)
    values[array.elements] = values_of(array, words)
    return values[:-1].reshape(array.shape)


def values_of(array: Array, words: np.ndarray) -> np.ndarray:
    """Give what words hold, as float32: of a narrow array both halves, with an axis of two behind."""
    return np.stack(unpack_bf16(words), axis=-1) if array.narrow else words


@dataclass(frozen=True)
class Placement:
    """Windows of one size at equal distances, and programs behind or beside them.

    Members
    -------
    channels : int                      windows there are
    base, stride, window_bytes : int    address of the first window; from one to the next; size of each
    programs, program_bytes : int       address and size of all programs
    """

    channels: int
    base: int
    stride: int
    window_bytes: int
    programs: int
    program_bytes: int

    def window(self, channel: int) -> range:
        """Give the addresses of a channel's window."""
        start = self.base + channel * self.stride
        return range(start, start + self.window_bytes)

    @property
    def parts(self) -> list[range]:
        """All addresses that are used."""
        windows = [self.window(channel) for channel in range(self.channels)]
        return [*windows, range(self.programs, self.programs + self.program_bytes)]

    @property
    def end(self) -> int:
        """The first page behind all of it."""
        return whole_pages(max(part.stop for part in self.parts))


def region_bytes(sizes: Mapping[str, int]) -> int:
    """Bytes from the start of the first of some programs to the end of the last; each begins at a page."""
    *others, last = sizes.values()
    return sum(map(whole_pages, others)) + last


def find(size_bytes: int, memory_bytes: int, taken: Sequence[range]) -> range | None:
    """Find the first addresses from a page on that nobody has taken; None if there is no room."""
    starts = sorted({0, *(whole_pages(part.stop) for part in taken)})
    found = (range(start, start + size_bytes) for start in starts if start + size_bytes <= memory_bytes)
    return next((part for part in found if not any(_overlap(part, other) for other in taken)), None)


def place(
    config: Config, window_bytes: int, program_bytes: int, *, memory_bytes: int | None = None,
    taken: Sequence[range] = (),
) -> Placement | None:  # fmt: skip
    """Find room: each window behind the port of its channel, or if it is too large, one window behind the other.

    Behind its own port a channel need not cross the switch between ports and memories, and all memories work however
    small the network is. The windows of the channels that share a port then lie in equal ranges of its memory.
    Programs lie behind the memory of all these ports; if no memory is left there, as far back in it as windows and
    `taken` allow. Whatever is placed begins at a multiple of 4096.

    Parameters
    ----------
    window_bytes, program_bytes : int    size of a window, a multiple of 4096, and of all programs
    memory_bytes : int, optional         size of the memory; default: any
    taken : ranges                       addresses that are in use

    Returns None if there is no room.
    """

    def made(base: int, stride: int, programs: int) -> Placement:
        return Placement(config.channels, base, stride, window_bytes, programs, program_bytes)

    def fits(placement: Placement, size_bytes: int | None) -> bool:
        if size_bytes is not None and max(part.stop for part in placement.parts) > size_bytes:
            return False
        *windows, programs = placement.parts
        if any(_overlap(window, programs) for window in windows):
            return False
        return not any(_overlap(part, other) for part in placement.parts for other in taken)

    ends = [0, *sorted(whole_pages(part.stop) for part in taken)]
    local = config.local_window_bytes
    behind = config.channels * local
    bases = sorted({end % local for end in ends if end % local + window_bytes <= local}) if local else []
    stops = sorted({behind, *(part.start for part in taken if part.start < behind)}, reverse=True)
    within = [stop - whole_pages(program_bytes) for stop in stops if stop >= whole_pages(program_bytes)]
    programs = [behind, *(end for end in ends if end > behind), *within]
    spread = (made(base, local, program) for base in bases for program in programs)
    dense = (made(end, window_bytes, end + config.channels * window_bytes) for end in ends)
    addressed = 1 << config.address_bits if memory_bytes is None else memory_bytes
    options = itertools.chain(((one, addressed) for one in spread), ((one, memory_bytes) for one in dense))
    return next((placement for placement, size_bytes in options if fits(placement, size_bytes)), None)


def _overlap(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)
