"""Changes of operands with integers, from what was last sent: the changes themselves are overwritten."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from etalstm.network.arithmetic import split
from etalstm.plan.memory.digits import Digits
from etalstm.plan.memory.integer_arrays import IntegerArrays
from etalstm.plan.memory.integer_changes import Changes


@dataclass(frozen=True)
class ChangesOfStep:
    """The changes of an operand at a step, of a batch tile.

    `numbers` are what was last sent at each step, `beats` those of a vector.
    """

    numbers: Digits
    step: int
    batch_tile: int
    beats: int

    def words(self, read: Callable[[int, int], np.ndarray], group: int, beats: int) -> np.ndarray:
        """Give the digits of a group as they are sent, a plane of so many beats each, int8.

        `read` gives words of a channel's window, from a beat on so many.
        """

        def at(step: int) -> np.ndarray:
            location = self.numbers.at(step, self.batch_tile, group)
            words = read((location.array.first + location.vector) * self.beats, beats)
            return np.ascontiguousarray(words).view(np.int8).astype(np.int32)

        return np.stack(split(at(self.step) - at(self.step - 1) if self.step else at(0)))


@dataclass
class _Sends:
    """Changes that lie in one array: of the layers that are left, in order, and the step that is sent."""

    changes: Changes
    numbers: list[Digits]
    step: int = -1

    def follow(self, entry: int, steps: int) -> None:
        """Go on to the step that lies in an entry, which may be the next layer's first one."""
        if self.step < 0 or entry != self.step % self.changes.turns:
            self.step += 1
        if self.step == steps:
            self.step = 0
            del self.numbers[0]


class ChangesOfSteps:
    """Tells which step's changes a SEND sends: a program sends those of a layer in order, and layer by layer.

    `layers` of which none has changes are as good as none. `beats` are those of a vector.
    """

    def __init__(self, layers: Sequence[IntegerArrays], beats: int):
        self._beats, self._sends = beats, dict[int, _Sends]()
        self._steps = layers[0].tiling.steps if layers else 0
        for arrays in layers:
            for name, changes in arrays.changes.items():
                sends = self._sends.setdefault(changes.digits.sent.array.first, _Sends(changes, []))
                sends.numbers.append(arrays.operands[name].digits)

    def find(self, beat: int) -> ChangesOfStep | None:
        """Give the changes whose first group lies at a beat; None if no changes do."""
        vector = beat // self._beats
        for first, sends in self._sends.items():
            sequence = sends.changes.digits.sent
            if vector in range(first, first + sequence.array.vectors):
                entry, rest = divmod(vector - first, sequence.step_vectors)
                sends.follow(entry, self._steps)
                batch_tile = rest // (sequence.tiles * sequence.batch.size)
                return ChangesOfStep(sends.numbers[0], sends.step, batch_tile, self._beats)
        return None
