"""Transfers over the DMA nodes of a card: in chunks, aligned, several at a time, and never without an end."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from etalstm.device.cards.nodes import Node
from etalstm.errors import DeviceError

CHUNK_BYTES = 4 << 20
TIMEOUT_SECONDS = 15.0  # above the driver's own 10 s, whose error says more and leaves the engine stopped
BEAT_BYTES = 64  # of the card's 512-bit data path
_PAGE_BYTES = 4096
_DRIVER_GAVE_UP = 512  # ERESTARTSYS, which the driver lets out when its own time-out has passed


class TransferError(DeviceError):
    """A transfer between host and card failed; the message has node, address and bytes."""


class TransferTimeoutError(TransferError):
    """A transfer stopped; the card has to be opened again."""


@dataclass(frozen=True)
class Chunk:
    """A part of a transfer: bytes of the host, and where they are on the card."""

    address: int
    data: np.ndarray


def aligned(address: int, size: int) -> np.ndarray:
    """Allocate uint8 (size,) that begins as far into a page as the card's address does."""
    spare = np.empty(size + _PAGE_BYTES, np.uint8)
    start = (address - spare.ctypes.data) % _PAGE_BYTES
    return spare[start : start + size]


class Transfers:
    """Moves bytes in one direction, a chunk at a time on each open node, each of them in a thread of its own.

    A channel's node is best opened twice: while one of the two waits for its DMA, the driver pins the other's pages.

    A system call on a node that hangs cannot be called back, so its thread is a daemon: the process can end whatever
    the card does.

    Parameters
    ----------
    nodes : list of (name, Node)
    verb : "reading" or "writing", for messages
    call : function            ``(node, address, memoryview) -> bytes moved``; blocks
    timeout_seconds : float    how long nothing may be completed
    chunk_bytes : int          of a chunk, a multiple of 4096; chunks begin at multiples of it
    """

    def __init__(
        self, nodes: list[tuple[str, Node]], verb: str, call: Callable[[Node, int, memoryview], int],
        timeout_seconds: float = TIMEOUT_SECONDS, chunk_bytes: int = CHUNK_BYTES,
    ):  # fmt: skip
        if not timeout_seconds > 0:
            raise ValueError(f"timeout_seconds must be above 0, got {timeout_seconds}")
        if chunk_bytes <= 0 or chunk_bytes % _PAGE_BYTES:
            raise ValueError(f"chunk_bytes must be a multiple of {_PAGE_BYTES}, got {chunk_bytes}")
        self._verb, self._call, self._chunk_bytes = verb, call, chunk_bytes
        self._timeout_seconds = timeout_seconds
        self._todo: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Chunk, Exception | None]] = queue.SimpleQueue()
        self._stopped: str | None = None
        self._workers = [
            threading.Thread(target=self._work, args=(name, node), name=name, daemon=True) for name, node in nodes
        ]
        for worker in self._workers:
            worker.start()

    def run(self, address: int, data: np.ndarray) -> None:
        """Move uint8 (n,) to or from the card's memory at `address`.

        :class:`TransferTimeoutError` if nothing was completed for ``timeout_seconds``, now or in an earlier transfer.
        Other :class:`TransferError` if a node failed: the other chunks are finished, and the next transfer may be
        tried.
        """
        if self._stopped:
            raise TransferTimeoutError(f"{self._stopped}; open the card again")
        left = self._submit(address, data)
        failed = None
        try:
            while left:
                chunk, error = self._next(left, address, data.size)
                left.pop(chunk.address)
                if error and failed is None:
                    failed = error
                    self._drop(left)
        except BaseException:  # also Ctrl-C: what has begun must not be taken for part of the next transfer
            self._drop(left)
            while left and not self._stopped:
                left.pop(self._next(left, address, data.size)[0].address)
            raise
        if failed:
            raise failed

    def close(self) -> None:
        """End the threads, those that hang excepted."""
        for _ in self._workers:
            self._todo.put(None)

    def _submit(self, address: int, data: np.ndarray) -> dict[int, Chunk]:
        chunks, start = {}, 0
        while start < data.size:
            end = min(data.size, start + self._chunk_bytes - (address + start) % self._chunk_bytes)
            chunks[address + start] = Chunk(address + start, data[start:end])
            start = end
        for chunk in chunks.values():
            self._todo.put(chunk)
        return chunks

    def _next(self, left: dict[int, Chunk], address: int, size: int) -> tuple[Chunk, Exception | None]:
        """Wait for one of the chunks to be completed; others belong to a transfer that was interrupted."""
        try:
            while True:
                chunk, error = self._done.get(timeout=self._timeout_seconds)
                if left.get(chunk.address) is chunk:
                    return chunk, error
        except queue.Empty:
            self._drop(left)
            where = ", ".join(f"{chunk.data.size} bytes at {chunk.address:#x}" for chunk in left.values())
            self._stopped = (
                f"{self._verb} {size} bytes at address {address:#x}: "
                f"nothing moved for {self._timeout_seconds:g} seconds, still missing {where}"
            )
            raise TransferTimeoutError(self._stopped) from None

    def _drop(self, left: dict[int, Chunk]) -> None:
        """Take back the chunks that no thread has begun."""
        while True:
            try:
                chunk = self._todo.get_nowait()
            except queue.Empty:
                return
            if chunk is None:  # it tells a thread to end, and is the last one
                self._todo.put(None)
                return
            left.pop(chunk.address, None)

    def _work(self, name: str, node: Node) -> None:
        while (chunk := self._todo.get()) is not None:
            try:
                self._move(name, node, chunk)
            except Exception as error:  # whatever it is, the caller's thread raises it
                self._done.put((chunk, error))
            else:
                self._done.put((chunk, None))

    def _move(self, name: str, node: Node, chunk: Chunk) -> None:
        """Move a chunk, in as many calls as the node wants."""
        view, moved = chunk.data.data, 0
        while moved < len(view):
            address = chunk.address + moved
            where = f"{name}: {self._verb} {len(view) - moved} bytes at address {address:#x}"
            try:
                count = self._call(node, address, view[moved:])
            except OSError as error:
                reason = "the driver's own time-out has passed" if error.errno == _DRIVER_GAVE_UP else error
                raise TransferError(f"{where} failed: {reason}") from None
            if count <= 0:
                raise TransferError(f"{where}: no byte was moved")
            moved += count


def fit_to_move(address: int, data: np.ndarray) -> np.ndarray:
    """Give bytes that the driver can take as they are, or a copy that it can.

    Host and card address must agree within a beat of the data path, and the driver pins pages for writing even when it
    reads them.
    """
    if data.flags.writeable and (data.ctypes.data - address) % BEAT_BYTES == 0:
        return data
    copy = aligned(address, data.size)
    copy[:] = data
    return copy


def whole_beats(address: int, data: np.ndarray, read: Callable[[int, int], np.ndarray]) -> tuple[int, np.ndarray]:
    """Complete the first and the last beat with what is there: a memory with check bits writes whole beats only."""
    before, after = address % BEAT_BYTES, -(address + data.size) % BEAT_BYTES
    if not before and not after:
        return address, data
    start, whole = address - before, aligned(address - before, before + data.size + after)
    for edge in (0, whole.size - BEAT_BYTES):
        whole[edge : edge + BEAT_BYTES] = read(start + edge, BEAT_BYTES)
    whole[before : before + data.size] = data
    return start, whole
