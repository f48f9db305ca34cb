"""Signals that end a process, as a wish instead of an exception."""

import signal
import threading

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """Context in which the first SIGINT, SIGTERM or SIGHUP only sets :attr:`requested`; a second one acts as usual.

    Outside the main thread, where Python delivers no signals, it does nothing. A signal that the process ignores stays
    ignored: a run under ``nohup`` outlives its terminal.

    Members
    -------
    requested : int
        The signal's number, 0 while there was none.
    """

    def __init__(self) -> None:
        self.requested = 0
        self._previous: dict = {}

    def _handle(self, number: int, _: object) -> None:
        self.requested = number
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            heeded = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._handle) for number in heeded}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
