"""The nets of a unit: how many pins read each, and what delay it adds to a path."""

from collections import Counter
from collections.abc import Iterable
from enum import Enum, auto

from etalstm_boards.resources.delays import Delay, net_ps
from etalstm_boards.resources.synthesis import Cell

_SLICE_LOGIC = ("LUT", "INV", "MUXF", "CARRY")
_CLOCKS = {"CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK"}


class Pin(Enum):
    """A pin, by what the net to it takes.

    Members
    -------
    ROUTED : a net through the part's routing
    DATA : D of a flip-flop, in the slice of the logic before it if nothing else reads that
    SLICE : of a carry chain or a multiplexer, in the slice of the LUT before it
    INNER : no net, as from one part of a carry chain to the next
    """

    ROUTED = auto()
    DATA = auto()
    SLICE = auto()
    INNER = auto()


def is_clock(cell: Cell, port: str) -> bool:
    """Tell whether a port takes a clock, which no path goes through."""
    return port in _CLOCKS or (port == "C" and cell.type.startswith("FD"))


class Nets:
    """The nets of a unit.

    Parameters
    ----------
    primitives : its cells, without stubs
    pins : for nets at the ports of stubs, the pins within the stubs, one count for each port bit
    entering : nets that come from outside; their delay is counted there, where all of their readers are known
    """

    def __init__(self, primitives: Iterable[Cell], pins: Iterable[tuple[int, int]], entering: Iterable[int]):
        self.readers: Counter[int] = Counter()
        self._slice_logic: set[int] = set()
        self._carries: set[int] = set()
        self._entering = frozenset(entering)
        for cell in primitives:
            for port, bits in cell.inputs.items():
                if not is_clock(cell, port):
                    self.readers.update(bit for bit in bits if isinstance(bit, int))
            if cell.type.startswith(_SLICE_LOGIC):
                self._slice_logic.update(bit for bits in cell.outputs.values() for bit in bits if isinstance(bit, int))
            if cell.type == "CARRY4":
                self._carries.update(bit for bit in cell.outputs["CO"] if isinstance(bit, int))
        for net, readers in pins:
            self.readers[net] += readers

    def is_carry(self, net: int | str) -> bool:
        """Tell whether a net is from one part of a carry chain to the next."""
        return net in self._carries

    def wire(self, net: int, pin: Pin) -> tuple[int, int]:
        """Give the delay of a net to a pin, in ps, and the readers of it if it is routed, else 0."""
        if pin is Pin.INNER or net in self._entering:
            return 0, 0
        if net in self._slice_logic and (pin is Pin.SLICE or (pin is Pin.DATA and self.readers[net] == 1)):
            return Delay.SLICE_NET.ps, 0
        return net_ps(self.readers[net]), self.readers[net]
