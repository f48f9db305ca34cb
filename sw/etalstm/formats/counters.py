"""The machine's counters by name."""

from collections.abc import Sequence

from etalstm_hw.contract import Counter, Cycle, Traffic

_OF_MANY = (Counter.CYCLE_KINDS, Counter.READ_BEATS, Counter.WRITE_BEATS, Counter.PROGRAM_BEATS, Counter.COUNT)


def named_counters(words: Sequence[int], beat_bytes: int) -> dict:
    """Name the counters, given in the order of :class:`Counter`, and turn beats into bytes.

    Gives a dict: ``cycles``; ``channel_cycles``: cycles of the channels' PEs by :class:`Cycle` in small letters, summed
    over channels; ``mac_phase``, ``activation``, ``scalars_seen``, ``scalars_skipped``, ``rows_seen``,
    ``rows_skipped``; ``read_bytes`` and ``write_bytes`` by :class:`Traffic` in small letters; ``program_bytes``.
    """

    def by_kind(first: Counter, kinds, scale: int = 1) -> dict[str, int]:
        return {kind.name.lower(): words[first + kind] * scale for kind in kinds}

    return {counter.name.lower(): words[counter] for counter in Counter if counter not in _OF_MANY} | {
        "channel_cycles": by_kind(Counter.CYCLE_KINDS, Cycle),
        "read_bytes": by_kind(Counter.READ_BEATS, Traffic, beat_bytes),
        "write_bytes": by_kind(Counter.WRITE_BEATS, Traffic, beat_bytes),
        "program_bytes": words[Counter.PROGRAM_BEATS] * beat_bytes,
    }
