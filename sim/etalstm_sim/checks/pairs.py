"""Pairs each MAC with its CAST, or each PRODUCT with its SEND: the first with the first, and so on."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from etalstm_hw.config import Config
from etalstm_hw.contract import Engine, Opcode, Start, Status
from etalstm_hw.contract.integers import WORD_BYTES
from etalstm_sim.checks.engines import NOTHING, Check, blocks, inner_indices, planes
from etalstm_sim.checks.instruction import Instruction
from etalstm_sim.checks.refusals import is_misplaced

_MISPLACED = Check(Status.BAD_FIELD, is_late=True)


class _Sent(Protocol):
    """What a broadcaster sends for an instruction of MAC."""

    def check(self, fields: dict[str, int], config: Config) -> Check:
        """Check the instruction of MAC that it is paired with."""


@dataclass(frozen=True)
class _Cast:
    """The broadcasts of a CAST.

    Members
    -------
    tiles : int
    narrow : bool
    terms : int
        Outer indices.
    own_sums, sums : int
        Inner indices up to the last one of this CAST, and of all CASTs since `start`.
    whole : bool
        It has `start` and `finish`: each sum begins and ends here.
    finish : bool
    """

    tiles: int
    narrow: bool
    terms: int
    own_sums: int
    sums: int
    whole: bool
    finish: bool

    def check(self, fields: dict[str, int], config: Config) -> Check:
        """Check a MAC's addresses. Zeros are not broadcast: only a sum that begins here is used for certain."""
        tiles = fields["tiles"]
        if tiles != self.tiles:
            return Check(Status.BAD_FIELD, is_late=True)
        vectors = (tiles + 1) // 2 if self.narrow else tiles
        sums = self.sums if self.finish else self.own_sums
        weights = fields["weights"] + self.terms * vectors > config.weight_depth
        beyond_sums = fields["sums"] + sums * tiles > config.queue_depth
        bias = fields["start"] == Start.BIAS and fields["bias"] + tiles > config.bias_depth
        work = self.terms * sums * tiles
        if self.whole and (beyond_sums or bias):
            return Check(Status.BAD_ADDRESS, is_late=True, work=work)
        beyond = weights or beyond_sums or bias
        return Check(possible=frozenset({Status.BAD_ADDRESS}) if beyond else NOTHING, work=work)


@dataclass(frozen=True)
class _Array:
    """The array of a SEND.

    Members
    -------
    elements, planes : int
        Of a sequence; digits of each element.
    sequences, repeats : int
        Of a stream; how often the array is sent.
    """

    elements: int
    planes: int
    sequences: int
    repeats: int

    def check(self, fields: dict[str, int], config: Config) -> Check:
        """Check a PRODUCT's addresses. Of each sequence, element 0 counts as sent; of others the data decide."""
        sums, rows = self.sequences * self.repeats, config.weight_depth // config.row_vectors
        first_of_last = fields["weights"] // config.row_vectors + (self.repeats - 1) * fields["rows"]
        work = sums * (self.planes * self.elements + config.tile_sums)
        if first_of_last >= rows or fields["sums"] + sums * config.tile_sums > config.queue_depth:
            return Check(Status.BAD_ADDRESS, is_late=True, work=work)
        beyond = first_of_last + self.elements > rows
        return Check(possible=frozenset({Status.BAD_ADDRESS}) if beyond else NOTHING, work=work)


class Pairs:
    """Pairs the CASTs and MACs, or the SENDs and PRODUCTs, of a program as they are dispatched.

    Parameters
    ----------
    config : Config

    Members
    -------
    may_block : bool
        A MAC was dispatched before its CAST, or so many CASTs before their MACs that a queue may be full. Then engines
        may wait for each other. It is the same with SENDs and PRODUCTs.
    """

    def __init__(self, config: Config):
        self._config = config
        self._sent: deque[_Sent] = deque()
        self._macs: deque[tuple[int, Instruction]] = deque()
        self._sums, self._is_over = 0, False
        self.may_block = False

    @property
    def are_whole(self) -> bool:
        """Every CAST or SEND has its MAC or PRODUCT, and the other way round."""
        return not self._sent and not self._macs

    def end(self) -> None:
        """Take no CAST or SEND any more: one was refused, or a PRODUCT was that never takes its digits."""
        self._is_over = True

    def add(self, number: int, instruction: Instruction) -> None:
        """Add an instruction of CAST or MAC, and its number in the program."""
        if instruction.engine == Engine.MAC:
            self._macs.append((number, instruction))
            self.may_block |= not (self._sent or self._is_over or self._is_misplaced(instruction))
        elif not self._is_over:
            self._sent.append((self._cast if instruction.opcode == Opcode.CAST else self._array)(instruction.fields))
            self.may_block |= len(self._sent) > self._config.instruction_queue

    def checks(self) -> Iterator[tuple[int, Check]]:
        """Give the numbers and checks of instructions of MAC, as soon as they have got what they are checked with."""
        while self._macs:
            number, instruction = self._macs[0]
            if self._is_misplaced(instruction):  # it is refused before it gets a digit
                self.end()
                yield number, _MISPLACED
                return
            if not self._sent:
                return
            self._macs.popleft()
            yield number, self._check(instruction.fields, self._sent.popleft())

    def _cast(self, fields: dict[str, int]) -> _Cast:
        lanes = [block.lanes for block in islice(blocks(fields), fields["blocks"])]
        own = fields["first_sum"] + max(inner_indices(fields, count) for count in lanes)
        self._sums = max(own, 0 if fields["start"] else self._sums)
        whole = bool(fields["start"] and fields["finish"])
        terms = len(lanes) * fields["batch"] if fields["batch_outer"] else fields["gates"] * sum(lanes)
        shape = fields["tiles"], bool(fields["narrow"])
        return _Cast(*shape, terms, own, self._sums, whole, bool(fields["finish"]))

    def _array(self, fields: dict[str, int]) -> _Array:
        elements = fields["blocks"] * WORD_BYTES * self._config.lanes
        return _Array(elements, planes(fields), fields["own"], fields["repeats"])

    def _is_misplaced(self, instruction: Instruction) -> bool:
        return instruction.opcode == Opcode.PRODUCT and is_misplaced(instruction.fields, self._config)

    def _check(self, fields: dict[str, int], sent: _Sent) -> Check:
        return sent.check(fields, self._config)
