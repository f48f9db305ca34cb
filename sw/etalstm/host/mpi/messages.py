"""Messages of Python objects between ranks; arrays in them are not copied, and waiting takes no core."""

import importlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

SHORTEST_PAUSE, LONGEST_PAUSE = 10e-6, 200e-6
"""Seconds between two looks for a message. MPI itself would look without a pause, and take a whole core."""


class Messages:
    """Sends and receives.

    Parameters
    ----------
    communicator : mpi4py.MPI.Intracomm
        Nobody else may use it.
    """

    def __init__(self, communicator):
        self._messages = importlib.import_module("mpi4py.util.pkl5").Intracomm(communicator)
        self._thread: ThreadPoolExecutor | None = None
        self._posted: list[Future] = []

    def send(self, messages: dict[int, Any]) -> None:
        """Send messages, by rank, all at once; return when they have left."""
        requests = [self._messages.isend(message, rank) for rank, message in messages.items()]
        for request in requests:
            request.wait()

    def post(self, message: Any, rank: int) -> None:
        """Send a message while this thread goes on; what is in it must not change until :meth:`finish`.

        A large message moves only while both sides are in a call of MPI. So a thread stays in one.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "messages")
        self._posted.append(self._thread.submit(self._deliver, message, rank))

    def _deliver(self, message: Any, rank: int) -> None:
        request, pauses = self._messages.isend(message, rank), _pauses()
        while not request.test()[0]:
            time.sleep(next(pauses))

    def finish(self) -> None:
        """Wait until all posted messages have left."""
        posted, self._posted = self._posted, []
        for future in posted:
            future.result()

    def receive(self, rank: int) -> Any:
        """Wait for a message of a rank."""
        pauses = _pauses()
        while (found := self._arrived([rank])) is None:
            time.sleep(next(pauses))
        return found[1]

    def receive_any(self, ranks: Sequence[int], is_over: Callable[[], bool] = lambda: False) -> tuple[int, Any] | None:
        """Wait for a message of one of some ranks; give the rank and the message, or None if there is none to come."""
        pauses = _pauses()
        while not is_over():
            if (found := self._arrived(ranks)) is not None:
                return found
            time.sleep(next(pauses))
        return None

    def _arrived(self, ranks: Sequence[int]) -> tuple[int, Any] | None:
        for rank in ranks:
            if self._messages.iprobe(rank):
                return rank, self._messages.recv(None, rank)
        return None

    def abort(self, code: int) -> None:
        """End all ranks at once."""
        self._messages.Abort(code)


def _pauses():
    pause = SHORTEST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)
