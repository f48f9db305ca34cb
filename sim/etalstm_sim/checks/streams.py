"""Tracks which beats of a window hold indices of compressed streams, without any data."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from etalstm_hw.contract import STREAM_BLOCK


class Reading(Enum):
    """The result of reading a stream."""

    WHOLE = "whole"
    REFUSED = "refused"  #: its index has another number of elements
    UNKNOWN = "unknown"  #: there may be other data


class Room(Enum):
    """The room that a log has for a stream."""

    ENOUGH = "enough"
    TOO_LITTLE = "too little"
    UNKNOWN = "unknown"  #: it depends on how much is dropped


@dataclass(frozen=True)
class Stream:
    """A stream that a compressed STORE has written.

    Members
    -------
    elements : int
    bf16 : bool
    log : int
    beats : range
        All beats that the stream may occupy.
    run : int
        Streams with the same number were appended one after the other.
    """

    elements: int
    bf16: bool
    log: int
    beats: range
    run: int = 0


@dataclass(frozen=True)
class Log:
    """The end of a log, at least and at most."""

    least: int
    most: int
    run: int


class Streams:
    """The streams of a window; all channels have the same ones, as they execute the same program.

    Parameters
    ----------
    beat_words : int
    """

    def __init__(self, beat_words: int):
        self._beat_words = beat_words
        self._indices: dict[int, Stream | None] = {}  # None: overwritten
        self._bodies = range(0)  # all beats that streams may occupy
        self._logs: dict[int, Log] = {}
        self._runs = 0  # how often a log has begun

    def copy(self) -> "Streams":
        """Copy the streams for a new program, which continues no log."""
        copied = Streams(self._beat_words)
        copied._indices, copied._bodies, copied._runs = dict(self._indices), self._bodies, self._runs
        return copied

    def write(self, beats: range) -> None:
        """Overwrite some beats with other data."""
        for beat in range(beats.start, beats.stop) if len(beats) < len(self._indices) else list(self._indices):
            if beat in self._indices and beat in beats:
                self._indices[beat] = None
        for beat, _ in self._overlapping(beats):
            self._indices[beat] = None

    def append(self, index: int, stream: Stream, *, first: bool, end: int) -> Room:
        """Write a stream to its log and its index to a beat.

        Parameters
        ----------
        index : int
        stream : Stream
            If the log begins anew, its `beats` begin there.
        first : bool
            The log begins anew.
        end : int
            Of the log, exclusive.
        """
        least, most = self._sizes(stream)
        if first:
            self._runs += 1
            log = Log(stream.beats.start, stream.beats.start, self._runs)
        elif stream.log in self._logs:
            log = self._logs[stream.log]
        else:
            self._forget()  # the text does not say where the log is
            return Room.UNKNOWN
        if log.least + least > end:
            return Room.TOO_LITTLE
        room = Room.ENOUGH if log.most + most <= end else Room.UNKNOWN
        self._logs[stream.log] = Log(log.least + least, min(log.most + most, end), log.run)
        own = range(log.least, self._logs[stream.log].most)
        bodies = (self._bodies, own) if self._bodies else (own,)
        self._bodies = range(min(beats.start for beats in bodies), max(beats.stop for beats in bodies))
        self._write_body(own, log.run)
        self.write(range(index, index + 1))
        self._indices[index] = replace(stream, beats=own, run=log.run)
        return room

    def read(self, index: int, elements: int, *, bf16: bool) -> Reading:
        """Read a stream by its index beat."""
        stream = self._indices.get(index)
        if stream is None:
            return Reading.UNKNOWN
        if stream.elements != elements:
            return Reading.REFUSED
        return Reading.WHOLE if stream.bf16 == bf16 else Reading.UNKNOWN

    def _sizes(self, stream: Stream) -> tuple[int, int]:
        """Give the beats that a stream has at least and at most."""
        whole, rest = divmod(stream.elements, STREAM_BLOCK)
        masks = whole + bool(rest)
        kept = whole * (STREAM_BLOCK // 2) + (rest + 1) // 2 if stream.bf16 else stream.elements
        return -(-masks // self._beat_words), -(-(masks + kept) // self._beat_words)

    def _overlapping(self, beats: range) -> Iterator[tuple[int, Stream]]:
        """Give the streams that may occupy some of these beats, with their indices."""
        if beats.stop <= self._bodies.start or self._bodies.stop <= beats.start:
            return
        for index, stream in list(self._indices.items()):
            if stream and stream.beats.start < beats.stop and beats.start < stream.beats.stop:
                yield index, stream

    def _write_body(self, beats: range, run: int) -> None:
        """Write a stream's beats; streams that were appended before it in the same run stay."""
        for index, stream in self._overlapping(beats):
            if stream.run != run:
                self._indices[index] = None
        for index in self._indices:
            if index in beats:
                self._indices[index] = None

    def _forget(self) -> None:
        self._indices = dict.fromkeys(self._indices)
