"""Predicts how a program ends, as far as its instructions decide it."""

from collections.abc import Iterable
from dataclasses import dataclass

from etalstm_hw.contract import Engine, Opcode, Status
from etalstm_sim.checks.control import Control, Issued, Refusal
from etalstm_sim.checks.engines import NOTHING, Check, Engines
from etalstm_sim.checks.instruction import Instruction
from etalstm_sim.checks.pairs import Pairs
from etalstm_sim.checks.refusals import Sizes
from etalstm_sim.checks.streams import Reading, Room, Stream, Streams

MOST_STEPS = 50_000
"""Executed instructions: more than a machine executes in the cycles that a case has."""

_REMEMBERED = 1 << 16
_READINGS = {Reading.REFUSED: (Status.BAD_STREAM, NOTHING), Reading.UNKNOWN: (None, frozenset({Status.BAD_STREAM}))}


@dataclass(frozen=True)
class Ending:
    """How a program ends.

    Members
    -------
    refusals : frozenset of Refusal
        The first refusal of each engine, and of the sequencer. The program ends with one of them. If there are several,
        timing decides which one.
    possible : frozenset of Status
        Further statuses, which depend on data or on timing.
    work : int
        Vectors and scalars that the engines move, at most.
    is_cut : bool
        The program was longer than :data:`MOST_STEPS`; the rest is not checked.
    """

    refusals: frozenset[Refusal]
    possible: frozenset[Status]
    work: int
    is_cut: bool = False

    @property
    def statuses(self) -> frozenset[Status]:
        """All statuses that the program may end with."""
        refused = frozenset(refusal.status for refusal in self.refusals)
        return self.possible | (refused or frozenset({Status.DONE}))

    @property
    def promised(self) -> Status | None:
        """The one status that the program ends with, if it is certain."""
        return next(iter(self.statuses)) if len(self.statuses) == 1 and not self.is_cut else None

    @property
    def refusal(self) -> Refusal | None:
        """The one refusal that ends the program, if it is certain."""
        return next(iter(self.refusals)) if len(self.refusals) == 1 and not self.possible and not self.is_cut else None


class Model:
    """The checks of a machine, and the streams that are in its windows.

    Parameters
    ----------
    sizes : Sizes
    most_steps : int
        Executed instructions after which the model stops.
    """

    def __init__(self, sizes: Sizes, most_steps: int = MOST_STEPS):
        self._sizes, self._engines, self._most_steps = sizes, Engines(sizes), most_steps
        self._checks: dict[tuple[int, int], Check] = {}
        self._streams = Streams(sizes.config.beat_words)

    def run(self, words: Iterable[int]) -> Ending:
        """Predict how a program ends; what it writes is in the windows from then on."""
        walk = self._walk(words)
        self._streams = walk.streams
        return walk.ending

    def ending(self, words: Iterable[int], *, unordered: int | None = None) -> Ending:
        """Predict how a valid program with one changed field ends.

        Parameters
        ----------
        words : iterable of int
        unordered : int, optional
            Number of an instruction that may let others begin too early: streams may be read while they are written.
        """
        walk = self._walk(words)
        refusal = walk.refusals.get(None)
        if unordered is not None and walk.reads_streams and not (refusal and refusal.number == unordered):
            walk.possible.add(Status.BAD_STREAM)
        return walk.ending

    def check(self, instruction: Instruction, address: int) -> Check:
        """Check an instruction by itself."""
        key = instruction.word, address
        if key not in self._checks:
            if len(self._checks) >= _REMEMBERED:
                self._checks.clear()
            self._checks[key] = self._engines.check(instruction, address)
        return self._checks[key]

    def _walk(self, words: Iterable[int]) -> "_Walk":
        walk = _Walk(self, self._sizes, self._streams.copy())
        walk.run(Control(words, self._most_steps, integers=self._sizes.config.integers))
        return walk


class _Walk:
    """A walk through a program, which collects refusals and possible endings.

    Members
    -------
    refusals : dict
        The first refusal of each engine; of the sequencer under None.
    possible : set of Status
    streams : Streams
    reads_streams, is_cut : bool
    work : int
    """

    def __init__(self, model: Model, sizes: Sizes, streams: Streams):
        self._model, self._sizes, self.streams = model, sizes, streams
        self._pairs = Pairs(sizes.config)
        self._dispatched = dict.fromkeys(Engine, 0)  # instructions of each engine
        self._joined_loads = 0  # LOADs that complete, and count, together with the next one
        self.refusals: dict[Engine | None, Refusal] = {}
        self.possible: set[Status] = set()
        self.reads_streams = self.is_cut = False
        self.work = 0

    @property
    def ending(self) -> Ending:
        """The ending, as the walk found it."""
        return Ending(frozenset(self.refusals.values()), frozenset(self.possible), self.work, self.is_cut)

    def run(self, control: Control) -> None:
        """Walk through the whole program, or up to an instruction that the sequencer refuses."""
        for issued in control:
            self._check(issued)
            if None in self.refusals:
                return
        self.is_cut = control.is_cut
        if control.refusal:
            self.refusals[None] = control.refusal
        elif not self._pairs.are_whole and not self.is_cut and not self.refusals:
            self.refusals[None] = Refusal(Status.STUCK, None, control.end)
        if self._pairs.may_block:
            self.possible.add(Status.STUCK)

    def _check(self, issued: Issued) -> None:
        """Check an instruction, its streams first as an engine does."""
        number, instruction, engine, address = issued
        fields = instruction.fields
        if fields["wait_load"] and self._joined_loads >= fields["wait_load"]:
            self.possible.add(Status.STUCK)
        check = self._model.check(instruction, address)
        if check.reads:
            self._read(number, engine, check, bf16=instruction.opcode == Opcode.LOAD and bool(fields["bf16"]))
        stopped = engine in self.refusals
        self._note(number, engine, check)
        if engine in (Engine.CAST, Engine.MAC):
            self._pair(number, instruction)
        elif instruction.opcode == Opcode.LOAD:
            self._joined_loads += fields["more"]
        elif engine == Engine.STORE and not stopped:
            self._store(number, instruction, address, check)
        self._dispatched[engine] += 1

    def _note(self, number: int, engine: Engine, check: Check) -> None:
        """Note the result of a check, unless the engine has stopped before."""
        refuses = None if check.by_sequencer else engine
        if engine in self.refusals:
            return
        self.work += check.work
        self.possible |= check.possible
        if check.refusal:
            before = self._dispatched[engine] - (self._joined_loads if engine == Engine.LOAD else 0)
            self.refusals[refuses] = Refusal(check.refusal, refuses, number, before, check.is_late)

    def _pair(self, number: int, instruction: Instruction) -> None:
        """Note what is wrong with the instructions of MAC that have now got what they are checked with."""
        if Engine.CAST in self.refusals:
            self._pairs.end()
        self._pairs.add(number, instruction)
        for place, check in self._pairs.checks():
            self._note(place, Engine.MAC, check)

    def _read(self, number: int, engine: Engine, check: Check, *, bf16: bool) -> None:
        """Read streams in order; streams before a refused one are read."""
        self.reads_streams = True
        if Engine.STORE in self.refusals:
            return  # the reader waits for a stream that is never written
        for index in check.reads:
            reading = self.streams.read(index, check.elements, bf16=bf16)
            if reading is not Reading.WHOLE:
                refusal, possible = _READINGS[reading]
                self._note(number, engine, Check(refusal, possible))

    def _store(self, number: int, instruction: Instruction, address: int, check: Check) -> None:
        """Write beats or a stream. A stream may outgrow its log before a lane address is refused."""
        fields = instruction.fields
        for beats in check.writes:
            self.streams.write(beats)
        if instruction.opcode != Opcode.STORE or not fields["compressed"] or not check.elements:
            return
        begins = range(fields["start"], fields["start"])
        stream = Stream(check.elements, bool(fields["bf16"]), fields["log"], begins)
        room = self.streams.append(address, stream, first=bool(fields["first"]), end=fields["end"])
        if room is Room.TOO_LITTLE and not check.refusal:
            self._note(number, Engine.STORE, Check(Status.OVERFLOW))
        elif room is not Room.ENOUGH:
            self.possible.add(Status.OVERFLOW)
