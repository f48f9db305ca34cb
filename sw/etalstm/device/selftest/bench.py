"""A machine on the bench: small programs in windows that are spread over all of its memory, and their instructions."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

from etalstm.device.machine.accelerator import Accelerator, LoadedProgram
from etalstm.plan.program.program import Program
from etalstm_hw import contract
from etalstm_hw.contract import PAGE_BYTES, Memory, Opcode, Traffic


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: what was seen, and which part to suspect."""

    what: str
    suspect: str


@dataclass
class Outcome:
    """What one check found; `detail` tells what was checked, with its figures."""

    name: str
    detail: str
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def spans(numbers) -> str:
    """Write ascending numbers shortly: ``0-3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


SOLIDS = (0x00000000, 0xFFFFFFFF, 0x55555555, 0xAAAAAAAA, 0x33333333, 0xCCCCCCCC, 0x0F0F0F0F, 0xF0F0F0F0)


def patterns(words: int, seed: int) -> np.ndarray:
    """Make uint32 (words,): each solid pattern in blocks of 16 words, a one and a zero walking, then random words."""
    walking = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
    fixed = np.concatenate([np.repeat(np.array(SOLIDS, np.uint32), 16), walking, ~walking])
    random = np.random.default_rng(seed).integers(0, 1 << 32, words, np.uint32)
    random[: min(words, fixed.size)] = fixed[:words]
    return random


def describe(expected: np.ndarray, got: np.ndarray, beat_words: int) -> str | None:
    """Say how two runs of words, uint32, whole beats, differ; None if they are equal.

    Either bits of a beat of `beat_words` words are stuck, or the first difference is told.
    """
    expected, got = (words.reshape(-1, beat_words) for words in (expected, got))
    different = expected != got
    if not different.any():
        return None
    stuck = [text for level in (0, 1) if (text := _stuck(expected, got, level))]
    if stuck:
        return f"{' and '.join(stuck)} of a beat of {32 * beat_words} bits"
    beat, word = np.argwhere(different)[0]
    return (
        f"{np.count_nonzero(different)} of {different.size} words differ, first word {beat * beat_words + word}: "
        f"{got[beat, word]:#010x}, expected {expected[beat, word]:#010x}"
    )


def _stuck(expected: np.ndarray, got: np.ndarray, level: int) -> str | None:
    """Name the bits that always arrive at one level, if they explain every difference of that direction."""
    full = np.uint32(0xFFFFFFFF)
    want, have = (expected, got) if level else (~expected, ~got)  # look for ones where zeros were written
    always = np.bitwise_and.reduce(have, axis=0)
    changed = np.bitwise_or.reduce(have & ~want, axis=0)
    bits = [32 * word + bit for word in range(want.shape[1]) for bit in range(32) if always[word] >> bit & 1]
    bits = [n for n in bits if changed[n // 32] >> (n % 32) & 1]
    explained = np.zeros_like(changed)
    for n in bits:
        explained[n // 32] |= np.uint32(1) << np.uint32(n % 32)
    if not bits or (changed & ~explained & full).any():
        return None
    return f"bit {bits[0]} is stuck at {level}" if len(bits) == 1 else f"bits {bits} are stuck at {level}"


PROGRAM_BYTES = 1 << 16  # at the end of the memory
TIMEOUT_SECONDS = 30.0


class Bench:
    """Runs programs whose channels' windows divide the whole memory: a wrong address shows as a wrong window."""

    def __init__(self, accelerator: Accelerator):
        self.accelerator, self.transport, self.config = accelerator, accelerator.transport, accelerator.config
        memory = self.transport.memory_bytes
        self.stride = memory // self.config.channels // PAGE_BYTES * PAGE_BYTES
        self._program_address = (memory - PROGRAM_BYTES) // PAGE_BYTES * PAGE_BYTES

    def port_of(self, channel: int) -> str:
        """Name the memory port of a channel."""
        return f"port{channel // self.config.channels_per_port}"

    def write(self, vector: int, words: np.ndarray) -> None:
        """Write uint32 (channels, …) into every channel's window, from a vector on."""
        for channel, window in enumerate(words):
            self.transport.write_memory(self._address(channel, vector), np.ascontiguousarray(window))

    def read(self, vector: int, vectors: int) -> np.ndarray:
        """Read uint32 (channels, vectors, lanes) from every channel's window, from a vector on."""
        size = vectors * self.config.lanes * 4
        windows = [
            self.transport.read_memory(self._address(channel, vector), size) for channel in range(self.config.channels)
        ]
        return np.stack(windows).view(np.uint32).reshape(self.config.channels, vectors, self.config.lanes)

    def load(self, emit: Callable[[Program], None]) -> LoadedProgram:
        """Put into memory what `emit` appends to a program."""
        program = Program(self.config)
        emit(program)
        program.halt()
        self.accelerator.set_windows(0, self.stride)
        return self.accelerator.load(program.image(), self._program_address)

    def run(self, emit: Callable[[Program], None]) -> None:
        """Run what `emit` appends to a program; :class:`DeviceError` if the machine stops it, or it does not end."""
        self.accelerator.run(self.load(emit), TIMEOUT_SECONDS)

    def beat(self, vector: int) -> int:
        """Give a vector's address in an instruction."""
        return vector * self.config.vector_beats

    def _address(self, channel: int, vector: int) -> int:
        return channel * self.stride + vector * self.config.lanes * 4


KIND = Traffic.ACTIVATIONS  # what the transfers count as


def transfer(
    program: Program, bench: Bench, opcode: Opcode, memory: Memory, vector: int, count: int, *, source: int = 0,
    reads: Iterable[Hashable] = (), writes: Iterable[Hashable] = (),
) -> None:  # fmt: skip
    """Append a LOAD or STORE of `count` vectors between the windows, from `vector` on, and a lane memory.

    In the lane memory they begin at `source`. The count is a power of two where one loop could not count them.
    """
    inner = min(count, 1 << contract.COUNT_BITS - 1)
    outer, rest = divmod(count, inner)
    if rest:
        raise ValueError(f"{count} vectors are no multiple of {inner}")
    program.emit(
        opcode, reads=reads, writes=writes, address=bench.beat(vector), kind=KIND, memory=memory,
        lane_address=source, outer=outer, inner=inner, outer_stride=inner if outer > 1 else 0, inner_stride=1,
    )  # fmt: skip


def cast(program: Program, bench: Bench, vector: int, *, channel: int, lanes: int, tiles: int) -> None:
    """Append a CAST of the first lanes of one vector of a channel's window, as one step of each of `tiles` new sums."""
    program.emit(
        Opcode.CAST, reads=["scalars"], address=bench.beat(vector), kind=KIND, channel=channel,
        tiles_per_channel=1, blocks=1, gates=1, batch=1, lanes=lanes, last_lanes=lanes, tiles=tiles, start=1, finish=1,
    )  # fmt: skip


def mismatches(bench: Bench, what: str, expected: np.ndarray, got: np.ndarray, unit: str) -> list[Finding]:
    """Name channels and lanes whose words (channels, vectors, lanes) differ, each channel with its first difference."""
    findings = []
    for channel in range(bench.config.channels):
        different = expected[channel] != got[channel]
        if different.any():
            lanes = np.flatnonzero(different.any(axis=0))
            vector, lane = np.argwhere(different)[0]
            texts = (f"{words[channel, vector, lane]:#010x}" for words in (got, expected))
            shown = "{} instead of {}".format(*texts)
            where = f"channel {channel}, lanes {spans(lanes)}"
            findings.append(Finding(f"{what} is wrong in {where}: {shown} in lane {lane}", f"the {unit} of {where}"))
    return findings
