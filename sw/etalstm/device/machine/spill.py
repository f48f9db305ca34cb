"""Moves what segments keep to the host and back, while other segments compute."""

from etalstm.device.machine.intermediates import Intermediates
from etalstm.errors import StreamError
from etalstm.plan.memory.segments import REGIONS
from etalstm.plan.memory.stored import Held


class Spill:
    """What the segments of one iteration keep: in the machine's memory, or sealed on the host.

    In the forward pass a segment's region is needed again by the second one after it, so what it keeps leaves while the
    next one runs. The last two stay where they are: the backward pass begins with them.

    Parameters
    ----------
    held : list of Held
    intermediates : Intermediates

    Members
    -------
    intermediates : Intermediates
    host : dict from a segment's number to its sealed streams
    """

    def __init__(self, held: list[Held], intermediates: Intermediates):
        self._held, self.intermediates = held, intermediates
        self.host: dict[int, list[bytes]] = {}

    def during_forward(self, number: int) -> None:
        """Bring out the segment before the one that runs, if its region is needed again."""
        if 0 < number < len(self._held) - 1:
            self.host[number - 1] = self.intermediates.read(self._held[number - 1])

    def take(self, sealed: list[bytes]) -> None:
        """Take all segments' streams from the host, as if a forward pass had left them; those of the last two move in.

        Raises
        ------
        StreamError
            If a stream is not what is expected, or if there are too many.
        """
        first = 0
        for number, held in enumerate(self._held):
            ours = sealed[first : first + self.intermediates.count(held)]
            first += len(ours)
            if number < len(self._held) - REGIONS:
                self.intermediates.place(held, ours)
                self.host[number] = ours
            else:
                self.intermediates.write(held, ours)
        if first < len(sealed):
            raise StreamError(f"{len(sealed)} streams came, expected were {first}")

    def during_backward(self, number: int) -> None:
        """Bring back what the segment before the one that runs keeps: the region of the one after it is free."""
        self._bring(number - 1)

    def _bring(self, number: int) -> None:
        if number in self.host:
            self.intermediates.write(self._held[number], self.host[number])
