"""One configuration describes one machine.

Named presets are the ones that are built in every test run. A file in TOML describes another one by what differs.
"""

import hashlib
import json
import math
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from etalstm_hw import contract
from etalstm_hw.contract import BINARY32
from etalstm_hw.contract.integers import WEIGHT_BITS

_TYPES: dict[Any, tuple[type, str]] = {int: (Integral, "an integer"), float: (Real, "a number")}
FILE_SUFFIX, BASE = ".toml", "base"
INTEGER_PES, INTEGER_PORTS = (4, 8), (2, 4)
SENT_BANKS = 2  # of a sender: from one an array is sent while others come
BANK_ARRAYS = 2  # arrays of digits of a bank
MOST_STREAMS = 8
MOST_BANKS = 2  # of the scratch memory


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@dataclass(frozen=True)
class Config:
    """Everything that the generator needs to know.

    Words are binary32 in every machine: the activation's tables and the codec are made for it. Memory sizes are in
    vectors (one word for each lane of a channel) unless they say otherwise.

    Raises
    ------
    ValueError
        If a value is of the wrong type or out of range, or two values contradict each other; the message shows them.
    """

    channels: int
    lanes: int
    weight_depth: int = 4096
    scratch_depth: int = 1024
    scratch_reads: int = 2  # copies of the scratch memory, of each of which one operand is read in a cycle
    scratch_banks: int = 1  # of the scratch memory, by the address's lowest bit; of each one operand is read in a cycle
    queue_depth: int = 512  # partial sums of a lane, for each stream of digits
    bias_depth: int = 64
    activation_units: int = 1  # of a channel
    codec_words: int = 8  # elements that a channel compresses, or decompresses, in a cycle, if a beat has more
    instruction_queue: int = 8  # instructions that wait in front of each engine
    broadcast_words: int = 4096  # each of the broadcaster's buffers; with integers those of a stream, two for each port
    scalar_fifo: int = 8  # scalars that wait in front of each channel
    outstanding_bursts: int = 8  # reads in flight at each port, those of all its users together
    channels_per_port: int = 1  # channels that share a memory port
    broadcasters: int = 1  # as many as channels can be divided into groups; each has memory ports of its own
    port_bytes: int = 0  # memory behind each of the channels' ports, from address 0 on; 0: all memory behind every port
    address_bits: int = 33  # of a byte address
    integer_pes: int = 0  # of a lane, each of which multiplies two weights of 8 bits; 0: products are float32
    integer_streams: int = 1  # of digits, each with PEs of its own; two share a copy of the weights
    integer_ports: int = 2  # memory ports that bring arrays of digits in turn, each to a bank or to half of one
    clock_mhz: float = 250.0

    def __post_init__(self):
        self._check_types()
        powers = (
            "lanes",
            "weight_depth",
            "scratch_depth",
            "queue_depth",
            "bias_depth",
            "codec_words",
            "broadcast_words",
            "scalar_fifo",
        )
        for name in powers:
            if not _is_power_of_two(getattr(self, name)):
                raise ValueError(f"{name} must be a power of two, got {getattr(self, name)}")
        limits = {
            "channels": (1, 255),
            "lanes": (4, 32),
            "weight_depth": (16, 1 << contract.LANE_ADDRESS_BITS),
            "scratch_depth": (16, 1 << (contract.COUNT_BITS - 1)),
            "scratch_reads": (1, 2),
            "scratch_banks": (1, MOST_BANKS),
            "queue_depth": (16, 1 << contract.LANE_ADDRESS_BITS),
            "bias_depth": (4, 256),
            "codec_words": (2, 8),
            "activation_units": (1, self.lanes),
            "instruction_queue": (2, 64),
            "scalar_fifo": (2, 64),
            "outstanding_bursts": (1, 64),
            "channels_per_port": (1, 8),
            "broadcasters": (1, (1 << contract.GROUP_BITS) - 1),
            "address_bits": (20, 64),
        }
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be {low} to {high}, got {getattr(self, name)}")
        if self.scratch_ports > 2:
            raise ValueError(
                f"scratch_banks must be 1 with {self.scratch_reads} scratch_reads, got {self.scratch_banks}"
            )
        self._check_integers()
        if self.lanes % self.activation_units:
            raise ValueError(f"activation_units must divide lanes ({self.lanes}), got {self.activation_units}")
        if self.channels % self.channels_per_port:
            raise ValueError(f"channels_per_port must divide channels ({self.channels}), got {self.channels_per_port}")
        pages = contract.PAGE_BYTES * self.channels_per_port
        if self.port_bytes < 0 or self.port_bytes % pages:
            raise ValueError(
                f"port_bytes must be a multiple of {pages}, {self.channels_per_port} windows of whole pages, got "
                f"{self.port_bytes}"
            )
        if self.channels % self.broadcasters:
            raise ValueError(f"broadcasters must divide channels ({self.channels}), got {self.broadcasters}")
        if self.port_bytes * self.channel_ports > 1 << self.address_bits:
            raise ValueError(
                f"port_bytes of {self.channel_ports} ports must be within {1 << self.address_bits} addresses, got "
                f"{self.port_bytes} each"
            )
        if self.broadcast_words < 4 * self.lanes:
            raise ValueError(
                f"broadcast_words must hold one block of 4 × {self.lanes} words, got {self.broadcast_words}"
            )
        if not 0 < self.clock_mhz < math.inf:
            raise ValueError(f"clock_mhz must be positive, got {self.clock_mhz}")

    def _check_integers(self) -> None:
        if self.integer_pes not in (0, *INTEGER_PES):
            raise ValueError(f"integer_pes must be 0, or one of {INTEGER_PES}, got {self.integer_pes}")
        if self.integer_ports not in INTEGER_PORTS:
            raise ValueError(f"integer_ports must be one of {INTEGER_PORTS}, got {self.integer_ports}")
        if not 1 <= self.integer_streams <= (MOST_STREAMS if self.integers else 1):
            raise ValueError(
                f"integer_streams must be 1, or with integer_pes up to {MOST_STREAMS}, got {self.integer_streams}"
            )
        for name, vectors in ("weight_depth", self.row_vectors), ("queue_depth", self.tile_sums):
            if getattr(self, name) < vectors:
                raise ValueError(
                    f"{name} must be at least {vectors} with {self.integer_pes} integer_pes, got {getattr(self, name)}"
                )
        if self.sums > 1 << contract.LANE_ADDRESS_BITS:
            raise ValueError(
                f"queue_depth of {self.integer_streams} integer_streams must be at most "
                f"{1 << contract.LANE_ADDRESS_BITS} together, got {self.queue_depth} each"
            )

    def _check_types(self) -> None:
        for field in fields(self):
            value, (kind, name) = getattr(self, field.name), _TYPES[field.type]
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ValueError(f"{field.name} must be {name}, got {value!r}")

    @property
    def integers(self) -> bool:
        """Whether products are integers."""
        return self.integer_pes > 0

    @property
    def tile_sums(self) -> int:
        """Partial sums that a lane's PEs add to at once: 1, or of integers those of two weights of each."""
        return 2 * self.integer_pes or 1

    @property
    def row_vectors(self) -> int:
        """Vectors of the weight memory that hold the weights for :attr:`tile_sums`; integers are 8 bits."""
        return -(-self.tile_sums * WEIGHT_BITS // BINARY32.width) if self.integers else 1

    @property
    def scratch_ports(self) -> int:
        """Read ports of the scratch memory: one of each copy or bank."""
        return self.scratch_reads * self.scratch_banks

    @property
    def pes(self) -> int:
        """Processing elements of the machine."""
        return self.channels * self.lanes

    @property
    def macs(self) -> int:
        """Multiplications that the machine makes in a cycle at most."""
        return self.pes * self.tile_sums * self.integer_streams

    @property
    def sums(self) -> int:
        """Partial sums of a lane, of all streams."""
        return self.queue_depth * self.integer_streams

    def of_stream(self, sequences: int) -> int:
        """Give how many of some sequences each stream gets at most."""
        return -(-sequences // self.integer_streams)

    @property
    def beat_words(self) -> int:
        """Words of a memory beat: a whole vector, at most 256 bits."""
        return min(self.lanes, 8)

    @property
    def beat_bits(self) -> int:
        """Data width of every memory port."""
        return self.beat_words * BINARY32.width

    @property
    def beat_bytes(self) -> int:
        """Bytes of a memory beat."""
        return self.beat_bits // 8

    @property
    def vector_beats(self) -> int:
        """Beats of a vector."""
        return self.lanes // self.beat_words

    @property
    def instruction_beats(self) -> int:
        """Beats of an instruction."""
        return contract.INSTRUCTION_BITS // self.beat_bits

    @property
    def channel_ports(self) -> int:
        """Memory ports of the channels, the first ones."""
        return self.channels // self.channels_per_port

    @property
    def broadcaster_ports(self) -> int:
        """Memory ports of a broadcaster: with one, arrays of which few digits are sent would be late."""
        return self.integer_ports if self.integers else 1

    @property
    def ports(self) -> int:
        """Memory ports: those of the channels, the broadcasters' and the sequencer's."""
        return self.channel_ports + self.broadcasters * self.broadcaster_ports + 1

    @property
    def group_counts(self) -> tuple[int, ...]:
        """Into how many groups the channels can be divided, in ascending order."""
        return tuple(count for count in range(1, self.broadcasters + 1) if self.channels % count == 0)

    @property
    def local_window_bytes(self) -> int:
        """The largest window that lies behind its channel's own port; 0 if there is no such thing."""
        return self.port_bytes // self.channels_per_port

    def as_dict(self) -> dict:
        """Plain values, for the manifest."""
        return asdict(self)

    @property
    def digest(self) -> int:
        """32 bits that tell configurations apart, for the PRESET register."""
        text = json.dumps(self.as_dict(), sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


_BENCH = Config(channels=4, lanes=32, activation_units=2)
_VCU128 = replace(
    _BENCH, channels=40, channels_per_port=2, outstanding_bursts=16, port_bytes=1 << 28, scratch_depth=512,
    scratch_reads=1, bias_depth=32, codec_words=2, broadcast_words=4096, broadcasters=5,
)  # fmt: skip
# A weight memory for each lane and two streams, 64 bits wide and 4,096 deep: 768 ultra RAMs.
_VCU128_INT8 = replace(
    _VCU128, channels=32, channels_per_port=1, lanes=8, integer_pes=4, integer_streams=6, weight_depth=8192,
    scratch_depth=2048, scratch_banks=2, activation_units=4, broadcast_words=16384, integer_ports=4, broadcasters=1,
)  # fmt: skip

PRESETS = {
    "test": Config(
        channels=2, lanes=4, weight_depth=256, scratch_depth=256, queue_depth=64, bias_depth=16,
        codec_words=2, instruction_queue=4, broadcast_words=128, scalar_fifo=4, outstanding_bursts=2, broadcasters=2,
    ),
    # Two wide channels simulate faster than four narrow ones: control is once per channel.
    "sim": Config(channels=2, lanes=16, weight_depth=2048, queue_depth=256, activation_units=4, broadcast_words=2048),
    "bench": _BENCH,
    "vcu128": _VCU128,
    "u280": replace(_VCU128),
    # Four of the board's channels: figures of the board are measured on its own channel.
    "slice": replace(_VCU128, channels=4, broadcasters=4),
    # Products of integers.
    "test-int8": Config(
        channels=2, lanes=4, integer_pes=4, weight_depth=256, scratch_depth=512, scratch_reads=1, scratch_banks=2,
        queue_depth=64, bias_depth=16, codec_words=2, instruction_queue=4, broadcast_words=128, scalar_fifo=4,
        outstanding_bursts=2,
    ),
    "sim-int8": Config(
        channels=2, lanes=8, integer_pes=8, integer_streams=2, weight_depth=8192, scratch_depth=2048, queue_depth=1024,
        activation_units=8, broadcast_words=2048, integer_ports=4,
    ),
    "vcu128-int8": _VCU128_INT8,
    "slice-int8": replace(_VCU128_INT8, channels=4),
}  # fmt: skip


def preset(name: str) -> Config:
    """Look up a named configuration, or read one from a file.

    Parameters
    ----------
    name : str
        One of :data:`PRESETS`, or the path of a file that ends in ``.toml``. Its key ``base`` names a preset; every
        other key is a member of :class:`Config` that differs.

    Raises
    ------
    ValueError
        If there is none of that name, the message lists those there are; or if the file does not describe a
        configuration, the message names file and member.
    OSError
        If the file cannot be read.
    """
    if isinstance(name, str) and name.endswith(FILE_SUFFIX):
        return _read(Path(name))
    if name not in PRESETS:
        raise ValueError(
            f"unknown preset {name!r}, expected one of: {', '.join(PRESETS)}; or a file that ends in {FILE_SUFFIX}"
        )
    return PRESETS[name]


def _read(path: Path) -> Config:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        base = found.pop(BASE, None)
        if not isinstance(base, str) or base not in PRESETS:
            raise ValueError(f"{BASE} must be one of {', '.join(PRESETS)}, got {base!r}")
        known = [field.name for field in fields(Config)]
        unknown = [name for name in found if name not in known]
        if unknown:
            raise ValueError(f"there is no {unknown[0]!r}, expected some of: {', '.join(known)}")
        return replace(PRESETS[base], **found)
    except ValueError as error:  # also of a text that is no TOML or no UTF-8
        raise ValueError(f"{path}: {error}") from None
