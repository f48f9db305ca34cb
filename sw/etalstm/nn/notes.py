"""Notes of what is done while a model runs, for whoever asks; nobody does in training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from etalstm.device import TrainingShape
from etalstm.network.storage import Usage

_TAKER: ContextVar[Callable[[object], None] | None] = ContextVar("taker", default=None)


class Begun:
    """A layer's forward pass has been run; tells the pass from every other."""


@dataclass(frozen=True)
class LayoutNote:
    """Steps of a layer, and the layout of their recurrent products."""

    # units, batch: H, and the sequences; the most of them where the steps have unequal numbers
    units: int
    batch: int
    steps: int
    layout: str


@dataclass(frozen=True)
class PassNote:
    """A layer's passes in both directions, on a device."""

    begun: Begun  # the forward pass
    device: str  # its name
    shape: TrainingShape  # what the session was made for; it may have more steps
    steps: int
    usage: Usage | None  # what was kept and computed; None if the device does not count it
    groups: int | None  # groups of channels; None where there is no machine
    memory_bytes: int  # of the device that the layer takes; 0 where there is no such thing


def note(make: Callable[[], object]) -> None:
    """Hand a note to whoever takes notes now; without one it is not even made."""
    taker = _TAKER.get()
    if taker is not None:
        taker(make())


@contextmanager
def taking(taker: Callable[[object], None]) -> Iterator[None]:
    """Have the notes of this thread handed to a function."""
    token = _TAKER.set(taker)
    try:
        yield
    finally:
        _TAKER.reset(token)


@contextmanager
def counting() -> Iterator[list[Usage]]:
    """Collect what every layer keeps and computes that goes both ways, on a device that counts it."""
    found: list[Usage] = []

    def take(made: object) -> None:
        if isinstance(made, PassNote) and made.usage:
            found.append(made.usage)

    with taking(take):
        yield found
