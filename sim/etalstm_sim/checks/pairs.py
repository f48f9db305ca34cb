"""Pairs each MAC with its CAST: the first with the first, and so on."""

from collections import deque
from dataclasses import dataclass
from itertools import islice

from etalstm_hw.config import Config
from etalstm_hw.contract import Start, Status
from etalstm_sim.checks.engines import NOTHING, Check, blocks, inner_indices


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


class Pairs:
    """Pairs the CASTs and MACs of a program as they are dispatched.

    Parameters
    ----------
    config : Config

    Members
    -------
    may_block : bool
        A MAC was dispatched before its CAST, or so many CASTs before their MACs that a queue may be full. Then engines
        may wait for each other.
    """

    def __init__(self, config: Config):
        self._config = config
        self._casts: deque[_Cast] = deque()
        self._macs: deque[tuple[int, dict[str, int]]] = deque()
        self._sums = 0
        self.may_block = False

    @property
    def are_whole(self) -> bool:
        """Every CAST has a MAC, and every MAC a CAST."""
        return not self._casts and not self._macs

    def cast(self, fields: dict[str, int]) -> tuple[int, Check] | None:
        """Add a CAST; give the number of the MAC that waits for it, and the MAC's check."""
        lanes = [block.lanes for block in islice(blocks(fields), fields["blocks"])]
        own = fields["first_sum"] + max(inner_indices(fields, count) for count in lanes)
        self._sums = max(own, 0 if fields["start"] else self._sums)
        whole = bool(fields["start"] and fields["finish"])
        terms = len(lanes) * fields["batch"] if fields["batch_outer"] else fields["gates"] * sum(lanes)
        shape = fields["tiles"], bool(fields["narrow"])
        self._casts.append(_Cast(*shape, terms, own, self._sums, whole, bool(fields["finish"])))
        self.may_block |= len(self._casts) > self._config.instruction_queue
        return self._pair()

    def mac(self, number: int, fields: dict[str, int]) -> tuple[int, Check] | None:
        """Add a MAC; give its number and check, if its CAST is there."""
        self._macs.append((number, fields))
        self.may_block |= not self._casts
        return self._pair()

    def _pair(self) -> tuple[int, Check] | None:
        if not self._casts or not self._macs:
            return None
        number, fields = self._macs.popleft()
        return number, self._check(fields, self._casts.popleft())

    def _check(self, fields: dict[str, int], cast: _Cast) -> Check:
        """Check a MAC's addresses. Zeros are not broadcast: only a sum that begins here is used for certain."""
        tiles, config = fields["tiles"], self._config
        if tiles != cast.tiles:
            return Check(Status.BAD_FIELD, is_late=True)
        vectors = (tiles + 1) // 2 if cast.narrow else tiles
        sums = cast.sums if cast.finish else cast.own_sums
        weights = fields["weights"] + cast.terms * vectors > config.weight_depth
        beyond_sums = fields["sums"] + sums * tiles > config.queue_depth
        bias = fields["start"] == Start.BIAS and fields["bias"] + tiles > config.bias_depth
        work = cast.terms * sums * tiles
        if cast.whole and (beyond_sums or bias):
            return Check(Status.BAD_ADDRESS, is_late=True, work=work)
        beyond = weights or beyond_sums or bias
        return Check(possible=frozenset({Status.BAD_ADDRESS}) if beyond else NOTHING, work=work)
