"""Whether it pays to share tokens, and how many: an estimate from the products and loads of the first layer."""

from collections.abc import Sequence
from dataclasses import dataclass

from etalstm.plan.memory.arrays import tokens_at_once
from etalstm.plan.memory.tiling import Partition, ceil_div, stay
from etalstm.plan.passes.weights import staying
from etalstm.plan.plan import Plan
from etalstm_hw.contract import VectorOp

ACTIVATIONS = (VectorOp.SIGMOID, VectorOp.TANH)
MOST_TRIED = 64  # numbers of tokens that are looked at


@dataclass(frozen=True)
class Words:
    """What a group of channels meets in its part of a batch: steps that are no padding, distinct tokens among them."""

    places: int
    distinct: int


class SharingCosts:
    """Estimates the cycles of the first layer's products in a forward pass.

    A MAC takes a cycle. Meanwhile the memory port brings the next weights, unless they stay in the lanes, and the
    broadcaster reads the next operand. The slowest of the three counts. Of h nothing is taken to be zero but padding.

    `plan`: of the network, without shared tokens.
    """

    def __init__(self, plan: Plan):
        layer = plan.map.entry
        tiling, config = layer.tiling, plan.map.config
        self._steps, self._batch, self._config, self._lanes = plan.map.steps, plan.map.batch, config, layer.lanes
        self._inputs, self._units = tiling.inputs, tiling.units
        self._products = tiling.gates * tiling.units.tiles
        self._widest = tiling.gates * max(span.count for span in tiling.unit_spans)
        self._vectors = sum(tiling.weight_vectors(tiling.gates * span.count) for span in tiling.unit_spans)
        self._vector_cycles = config.vector_beats * plan.config.channels_per_port
        self._at_once = tokens_at_once(layer.lanes, tiling)
        self._activations = sum(operation.op in ACTIVATIONS for operation in layer.stage.forward)

    def whole(self, words: Words) -> float:
        """Give the cycles without sharing."""
        stays = stay(self._lanes, self._vectors, self._inputs.size + self._units.size)
        of_x, of_h = (
            max(self._made(words, each.size), self._read(each), 0 if stays else self._loaded(each.size * self._vectors))
            for each in (self._inputs, self._units)
        )
        return max(of_x, self._activated) + of_h

    def shared(self, words: Words, room: int) -> float:
        """Give the cycles with sums of at most `room` tokens.

        A token's sum meets few products for each load. So no product hides the loads of sums that do not stay, but
        for what is loaded ahead into memory that the weights of h leave.
        """
        sums, others, depth = room * self._products, self._units.size * self._vectors, self._lanes.weight_depth
        of_tokens, of_others = staying(self._lanes, [sums, others], self._widest)
        ahead = 0 if of_tokens or not of_others else min(sums, depth - others)
        bare = 0 if of_tokens else sums - ahead
        loads = ahead + (0 if of_others else others)
        of_x = max(self._made(words, 1), self._loaded(bare), self._read_words(room))
        of_h = max(self._made(words, self._units.size), self._loaded(loads), self._read(self._units))
        return max(of_x, self._activated) + of_h + self._of_tokens(words.distinct, room)

    def _made(self, words: Words, scalars: int) -> float:
        """Give the cycles of the products of all places with so many scalars each."""
        return words.places * self._products * scalars

    def _loaded(self, vectors: int) -> float:
        """Give the cycles in which so many vectors are loaded in each step; each batch tile loads for itself."""
        return vectors * self._steps * self._batch.count * self._vector_cycles

    def _read(self, columns: Partition) -> float:
        """Give the cycles in which the broadcaster reads an operand of all places: whole tiles."""
        return self._read_words(columns.channels * columns.tiles * columns.lanes)

    def _read_words(self, words: int) -> float:
        return words * self._steps * self._batch.batch / self._config.beat_words

    @property
    def _activated(self) -> float:
        """Cycles of the gates' functions, which the products of x hide where there is no other batch tile."""
        if self._batch.count > 1:
            return 0
        vectors = self._activations * self._units.tiles * self._batch.size * self._steps
        return vectors * self._config.lanes / self._config.activation_units

    def _of_tokens(self, distinct: int, room: int) -> float:
        """Give the cycles in which the sums of the tokens are made, stored, and loaded where they stay."""
        turns = 1 if stay(self._lanes, self._vectors, self._inputs.size) else ceil_div(room, self._at_once)
        loads = turns * self._inputs.size * self._vectors * self._vector_cycles
        read = room * self._inputs.channels * self._inputs.tiles * self._config.lanes / self._config.beat_words
        made = max(distinct * self._inputs.size * self._products, loads, read)
        return made + 2 * room * self._products * self._vector_cycles


def best_room(plan: Plan, batches: Sequence[tuple[int, Words]]) -> int | None:
    """Give for how many distinct tokens of a batch room is best, None if none are best shared.

    A batch that has more shares nothing. `plan` is of the network, without shared tokens. `batches` has of each batch
    its distinct tokens, and what the group has that has most.
    """
    costs = SharingCosts(plan)
    whole = [costs.whole(words) for _, words in batches]
    counts = sorted({distinct for distinct, _ in batches})
    best, least = None, sum(whole)
    for room in counts[:: -ceil_div(len(counts), MOST_TRIED)]:
        fits = zip(batches, whole, strict=True)
        cycles = sum(costs.shared(words, room) if distinct <= room else each for (distinct, words), each in fits)
        if cycles < least:
            best, least = room, cycles
    return best
