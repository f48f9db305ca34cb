"""Delta inputs with integers: what a layer's output is sent as, to its own next step and to the layer above."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from etalstm.plan.integers.exponents import Exponents
from etalstm.plan.memory.digits import Digits
from etalstm.plan.memory.integer_arrays import Constant, IntegerArrays
from etalstm.plan.memory.integer_changes import Changes
from etalstm.plan.memory.integer_tiling import NUMBERS, most_ended, vectors_of_changes
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Parameter, Scratch
from etalstm.plan.memory.tiling import ceil_div, cut
from etalstm.plan.passes.forward import Job
from etalstm.plan.passes.vectors import MINUS_ZERO, ZERO
from etalstm.plan.program.emit import Emitter
from etalstm_hw.contract import Traffic, VectorOp
from etalstm_hw.contract.integers import PLANES, WEIGHT_BITS, WORD_BYTES

CHANGE_BITS = WEIGHT_BITS + 1  # of a change, with its sign


@dataclass(frozen=True)
class Receiver:
    """A layer that an output is sent to: its arrays, the name of the operand, and by how many steps it is later."""

    arrays: IntegerArrays
    operand: str
    later: int

    @property
    def changes(self) -> Changes:
        """How the operand changes."""
        return self.arrays.changes[self.operand]

    @property
    def numbers(self) -> Digits:
        """What was last sent at each step."""
        return self.arrays.operands[self.operand].digits


def receivers_of(network: NetworkMap, layer: int) -> Iterator[Receiver]:
    """Give what receives a layer's output: its own next step, and the layer above if there is one."""
    for number, operand, later in ((layer, "h", 1), (layer + 1, "x", 0)):
        arrays = network.layers[number].integers if number < network.network.layers else None
        if arrays:
            yield Receiver(arrays, operand, later)


def make_bytes(
    emitter: Emitter, op: VectorOp, words: Operand, numbers: Operand, places: Operand, job: Job, *, planes: int = 1,
    bits: int = WEIGHT_BITS,
) -> None:  # fmt: skip
    """Make bytes of a job's numbers, [tile][b], or of their digits: in each group, four tiles, one plane of so many."""
    for number, tiles in enumerate(cut(job.span.count, WORD_BYTES)):
        of_group = words.at(number * planes * job.size, outer=1, inner=0)
        values = numbers.at(tiles.first * job.size, outer=1, inner=job.size)
        emitter.vector(op, of_group, values, places, outer=job.size, inner=tiles.count, bits=bits)


class ChangeSender:
    """Emits how a layer's output is sent. The span of a job is that of groups that end in a span of cells.

    Integers and their changes are float32 numbers on a grid, which are exact. A change below the threshold becomes ±0
    by a multiplication.

    Parameters
    ----------
    vectors : Operand    scratch memory, ``NUMBERS`` for each element of a job
    mask : Operand       the mask of the step at hand
    """

    def __init__(
        self, emitter: Emitter, scratch: Scratch, network: NetworkMap, layer: int, exponents: Exponents,
        vectors: Operand, mask: Operand,
    ):  # fmt: skip
        self._emitter, self._network, self._mask = emitter, network, mask if network.mask else None
        self._exponents, self._vectors = exponents, vectors
        tiling = network.layers[layer].tiling
        most = vectors_of_changes(most_ended(tiling.unit_spans, tiling.units)) * network.batch.size
        self._receivers = [(each, scratch.take("what is sent", most)) for each in receivers_of(network, layer)]

    def _sent(self, step: int) -> Iterator[tuple[Receiver, Operand, int]]:
        """Give who receives the output of a step, scratch memory for that, and at which step it is received."""
        for receiver, words in self._receivers:
            if step + receiver.later < self._network.steps:
                yield receiver, words, step + receiver.later

    def bring(self, job: Job) -> None:
        """Bring what was last sent."""
        for receiver, words, step in self._sent(job.step):
            if step:
                location = receiver.numbers.at(step - 1, job.batch_tile, job.span.first // WORD_BYTES)
                groups = ceil_div(job.span.count, WORD_BYTES)
                self._emitter.load(words, location, Traffic.ACTIVATIONS, 1, groups * job.size)

    def send(self, job: Job, output: Operand) -> None:
        """Store how a job's output differs from what was last sent, and what is last sent now."""
        count, size = job.span.count, job.size
        vector = partial(self._emitter.vector, outer=count, inner=size)
        own, *others = (self._vectors.at(n * count * size, outer=size) for n in range(NUMBERS))
        places, held = (self._exponents.constant(number) for number in (Constant.PLACES, Constant.HELD))
        vector(VectorOp.QUANTISE, own, output.at(0, outer=size), places, bits=WEIGHT_BITS)
        vector(VectorOp.CONVERT, own, own, held)
        for receiver, words, step in self._sent(job.step):
            self._to(receiver, words, step, job, own, *others)

    def _to(
        self, receiver: Receiver, words: Operand, step: int, job: Job, own: Operand, last: Operand, change: Operand,
        kept: Operand,
    ) -> None:  # fmt: skip
        """Store what one receiver gets for a step, at whose first one everything is sent."""
        count, size = job.span.count, job.size
        vector = partial(self._emitter.vector, outer=count, inner=size)
        of_groups = ceil_div(count, WORD_BYTES) * size
        before, changes, numbers, others = (words.at(n * of_groups) for n in (0, 1, 1 + PLANES, 2 + PLANES))
        if step:
            self._take(before, last, job)
            vector(VectorOp.SUBTRACT, change, own, last)
            vector(VectorOp.MULTIPLY, kept, Parameter(receiver.changes.scale), change)
            if self._mask:
                vector(VectorOp.SELECT_ZERO, kept, self._mask.at(0, outer=0), ZERO)
            vector(VectorOp.SELECT_ZERO, change, kept, ZERO)
            vector(VectorOp.SELECT, last, kept, own)
        else:
            vector(VectorOp.ADD, last, own, MINUS_ZERO)
            change = own
        group = job.span.first // WORD_BYTES
        self._make_bytes(VectorOp.UPPER_DIGITS, changes, PLANES, change, job)
        self._make_bytes(VectorOp.LOWER_DIGITS, changes.at(size), PLANES, change, job)
        self._store(changes, receiver.changes.at(step, job.batch_tile, group), PLANES * of_groups)
        self._make_bytes(VectorOp.BYTES, numbers, 1, last, job)
        self._store(numbers, receiver.numbers.at(step, job.batch_tile, group), of_groups)
        if step:
            vector(VectorOp.SUBTRACT, kept, own, last)
            self._make_bytes(VectorOp.BYTES, others, 1, kept, job)
            self._store(others, receiver.changes.others.at(step, job.batch_tile, group), of_groups)

    def _take(self, words: Operand, to: Operand, job: Job) -> None:
        """Take numbers from the bytes of words."""
        held = self._exponents.constant(Constant.HELD)
        for number, tiles in enumerate(cut(job.span.count, WORD_BYTES)):
            numbers = to.at(tiles.first * job.size, outer=1, inner=job.size)
            of_group = words.at(number * job.size, outer=1, inner=0)
            self._emitter.vector(VectorOp.CONVERT_BYTE, numbers, of_group, held, outer=job.size, inner=tiles.count)

    def _make_bytes(self, op: VectorOp, words: Operand, planes: int, numbers: Operand, job: Job) -> None:
        places = self._exponents.constant(Constant.HELD_PLACES)
        bits = WEIGHT_BITS if op == VectorOp.BYTES else CHANGE_BITS
        make_bytes(self._emitter, op, words, numbers, places, job, planes=planes, bits=bits)

    def _store(self, words: Operand, location: Location, vectors: int) -> None:
        self._emitter.store(words, location, Traffic.ACTIVATIONS, 1, vectors)
