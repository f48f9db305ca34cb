"""Memory for delta inputs with integers: what was last sent of an operand, its changes, and the gates' sums."""

from collections.abc import Sequence as Several
from dataclasses import dataclass
from functools import partial

import numpy as np

from etalstm.network.delta_inputs import DeltaInputs, least_change
from etalstm.plan.memory.digits import Digits, of_operand
from etalstm.plan.memory.integer_tiling import IntegerTiling
from etalstm.plan.memory.memory_map import MemoryMap
from etalstm.plan.memory.operands import Location, Sequence
from etalstm.plan.memory.sent import TURNS, threshold_parameters
from etalstm.plan.memory.tiling import LayerTiling
from etalstm_hw.contract.integers import PLANES, WEIGHT_BITS

HELD_EXPONENT = -24  # changes are made in float32, of integers times two to this power


@dataclass(frozen=True)
class Changes:
    """How an operand differs from what was last sent of it, and what follows from that.

    Members
    -------
    digits : Digits          of two planes: the changes of a step, as they are sent
    turns : int              entries of `digits`, which steps take in turn
    others : Digits          a byte that is not zero where a step's element was last sent as another number than its own
    sums : Sequence          of the gates, integers, as the present step leaves them
    collected : Sequence     gradients of elements that have had no number of their own since
    scale : int              parameter by which a change that is not sent becomes ±0
    """

    digits: Digits
    turns: int
    others: Digits
    sums: Sequence
    collected: Sequence
    scale: int

    def at(self, step: int, batch_tile: int, group: int = 0) -> Location:
        """Where the changes of a step lie."""
        return self.digits.at(step % self.turns, batch_tile, group)


def bound_of(threshold: float) -> float:
    """Give the bound below which a change of an operand within ±1 is not sent, of :data:`HELD_EXPONENT`.

    It lies half a step below the least change that is sent. So nothing depends on how a product with it is rounded.
    """
    return float(np.ldexp(np.ceil(least_change(threshold, WEIGHT_BITS, 0)) - 0.5, HELD_EXPONENT))


class IntegerRoom:
    """Arrays that layers use one after the other, and the parameters of their thresholds.

    `tilings` are those of all layers. While a layer's x is sent, it makes the changes of the next layer's x: so there
    are two arrays of changes of x, and the first layer's.
    """

    def __init__(
        self, into: MemoryMap, tilings: Several[LayerTiling], batch_vectors: int, delta_inputs: DeltaInputs
    ):  # fmt: skip
        self._into, self._inputs = into, delta_inputs
        self._parameters = threshold_parameters(delta_inputs, len(tilings))
        units, gates = tilings[0].units, tilings[0].gates
        inputs = max(tiling.inputs.tiles for tiling in tilings)
        add = into.add_raw
        self._sums = {name: add(f"sums_{name}", "intermediates", gates * units.tiles * batch_vectors) for name in "xh"}
        self._collected = {
            name: add(f"collected_{name}", "activations", tiles * batch_vectors)
            for name, tiles in (("x", inputs), ("h", units.tiles))
        }
        self._of_inputs: list[Digits] = []

    def changes(self, tiling: IntegerTiling, number: int) -> dict[str, Changes]:
        """Allocate what a layer's operands need, by operand; the rest is shared."""
        return {"x": self._changes("x", tiling, number), "h": self._changes("h", tiling, number)}

    def _changes(self, operand: str, tiling: IntegerTiling, number: int) -> Changes:
        partition, batch, layer = tiling.columns_of(operand), tiling.batch, self._inputs.layer(number)
        threshold = layer.x if operand == "x" else layer.h
        make = partial(of_operand, self._into, tiling, operand)
        if operand == "h":
            digits, turns = make(f"changes_h{number}", TURNS, PLANES), TURNS
        else:
            digits, turns = self._changes_of_inputs(make, number, tiling.steps), tiling.steps
        return Changes(
            digits=digits, turns=turns,
            others=make(f"others_{operand}{number}", tiling.steps),
            sums=Sequence(self._sums[operand], tiling.rows, batch),
            collected=Sequence(self._collected[operand], partition.tiles, batch),
            scale=self._parameters[threshold].threshold,
        )  # fmt: skip

    def _changes_of_inputs(self, make: partial[Digits], number: int, steps: int) -> Digits:
        if number > TURNS:
            return self._of_inputs[(number - 1) % TURNS]
        made = make(f"changes_x{number}", steps, PLANES)
        if number:
            self._of_inputs.append(made)
        return made
