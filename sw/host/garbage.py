"""Has Python look for garbage less often while millions of objects are made that are all needed."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# New objects between two looks. With Python's own 700, the looks take two fifths of the time to elaborate `vcu128`.
_THRESHOLD = 50_000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect garbage seldom inside a ``with``, or as a decorator inside a function, in all threads."""
    usual = gc.get_threshold()
    gc.set_threshold(_THRESHOLD, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
