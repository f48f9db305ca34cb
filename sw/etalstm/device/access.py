"""Who may use a device: one thread at a time, until it is closed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

from etalstm.errors import BusyError, DeviceError


class Access:
    """Admits one thread at a time to something, and nobody after it was closed; messages call it by its `name`."""

    def __init__(self, name: str):
        self._name, self._lock, self._closed = name, threading.RLock(), False

    @contextmanager
    def entered(self, call: str) -> Iterator[None]:
        """Keep other threads out for the time of the block, in which the same thread may enter again.

        `call` tells what is going to happen, for the messages: :class:`BusyError` if another thread is inside,
        :class:`DeviceError` if it was closed.
        """
        if not self._lock.acquire(blocking=False):
            raise BusyError(f"{call}: another thread uses {self._name}; wait for its end, or open one for each thread")
        try:
            if self._closed:
                raise DeviceError(f"{call}: {self._name} is closed")
            yield
        finally:
            self._lock.release()

    def close(self, release: Callable[[], None]) -> None:
        """Wait until nobody is inside, close, and call `release`. Closing twice does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                release()


Method = TypeVar("Method", bound=Callable[..., Any])


def exclusive(method: Method) -> Method:
    """Make a method of an object with an :class:`Access` named `access` one that only one thread is inside."""

    @wraps(method)
    def entering(self: Any, *arguments: Any, **options: Any) -> Any:
        with self.access.entered(f"{method.__name__}()"):
            return method(self, *arguments, **options)

    return cast(Method, entering)  # mypy forgets the type of what is wrapped
