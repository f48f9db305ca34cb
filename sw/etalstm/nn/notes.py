"""Notes of how a model's layers run, for callers that ask for them; training does not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from etalstm.device import TrainingShape
from etalstm.network.storage import Usage

_TAKER: ContextVar[Callable[[object], None] | None] = ContextVar("taker", default=None)


class ForwardNote:
    """Note of a layer's forward pass; its identity is the pass's."""


@dataclass(frozen=True)
class LayoutNote:
    """Steps of a layer, and the layout of their recurrent products."""

    # units, batch: H, and the sequences; of steps with unequal numbers of sequences the largest
    units: int
    batch: int
    steps: int
    layout: str


@dataclass(frozen=True)
class PassNote:
    """A layer's passes in both directions, on a device."""

    forward: ForwardNote  # the forward pass
    device: str  # its name
    shape: TrainingShape  # what the session was made for; it may have more steps
    steps: int
    usage: Usage | None  # what was stored and computed; None if the device does not count it
    groups: int | None  # groups of channels; None where there is no machine
    memory_bytes: int  # of the device's memory that the layer takes; 0 if it has none


def note(make: Callable[[], object]) -> None:
    """Make a note, and pass it to this thread's taker; without a taker the note is not made."""
    taker = _TAKER.get()
    if taker is not None:
        taker(make())


@contextmanager
def taking(taker: Callable[[object], None]) -> Iterator[None]:
    """Context in which this thread's notes are passed to a function."""
    token = _TAKER.set(taker)
    try:
        yield
    finally:
        _TAKER.reset(token)


@contextmanager
def counting() -> Iterator[list[Usage]]:
    """Collect the usage of each layer that runs forward and backward on a device that counts it."""
    found: list[Usage] = []

    def take(note: object) -> None:
        if isinstance(note, PassNote) and note.usage:
            found.append(note.usage)

    with taking(take):
        yield found
