"""Ctrl-C as a wish instead of an exception."""

import signal
import threading


class Interrupt:
    """Context in which the first SIGINT only sets :attr:`requested`; a second one interrupts as usual.

    Outside the main thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self):
        self.requested = False
        self._previous = None

    def _handle(self, *_) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_) -> None:
        self._restore()
