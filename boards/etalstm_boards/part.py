"""Resources of the FPGA part, an estimate of those that a configuration needs, and whether they fit."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from fractions import Fraction

from etalstm_hw.compute.memory import DEEPEST_BLOCK_RAM
from etalstm_hw.config import BANK_ARRAYS, SENT_BANKS, Config
from etalstm_hw.contract import BINARY32
from etalstm_hw.contract.integers import SUM_BITS
from etalstm_hw.dma.transpose import ram_styles
from etalstm_hw.fp.activation import READERS

_BLOCK_BITS, _BLOCK_DEPTH = 72, 512  # of a RAMB36E2 at its widest
_ULTRA_BITS, _ULTRA_DEPTH = 72, 4096
_SMALL_DEPTH = 64  # up to here a memory is made of LUTs


@dataclass(frozen=True)
class Resources:
    """Counts of a part's primitives; block RAMs in units of 36 Kbit.

    Members
    -------
    lut, ff, dsp, bram, uram : Fraction or int
    """

    lut: int | Fraction = 0
    ff: int | Fraction = 0
    dsp: int | Fraction = 0
    bram: int | Fraction = 0
    uram: int | Fraction = 0

    def __add__(self, other: "Resources") -> "Resources":
        """Sum, kind by kind."""
        return Resources(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, times: int) -> "Resources":
        """Give the resources of so many copies."""
        return Resources(*(times * amount for amount in astuple(self)))

    def share_of(self, part: "Resources") -> dict[str, float]:
        """Fraction of each kind of a part."""
        return {kind: float(getattr(self, kind) / getattr(part, kind)) for kind in KINDS}


KINDS = tuple(member.name for member in fields(Resources))
_LABELS = {"lut": "LUTs", "dsp": "DSPs", "bram": "block RAMs", "uram": "ultra RAMs"}  # of the kinds that are estimated

# As Yosys maps them; flip-flops are not estimated, nor LUTs of control logic.
OF_PE = Resources(lut=354, dsp=4)  # multiplier 80, adder 156, operands 118 LUTs
OF_ACTIVATION = Resources(lut=420, dsp=2)
OF_COEFFICIENTS = Resources(bram=2)  # for READERS activation units
OF_READER = Resources(bram=4)  # of a memory port of 256 bits: what is read ahead
OF_INTEGER_PE = Resources(dsp=1)


@dataclass(frozen=True)
class Part:
    """A part whose chip is several regions (SLRs); the memory lies beside the first."""

    regions: tuple[Resources, ...]

    @property
    def whole(self) -> Resources:
        """Resources of all regions."""
        return sum(self.regions, Resources())


_REGION = Resources(lut=432_000, ff=864_000, dsp=3_072, bram=672, uram=320)
XCVU37P = Part((Resources(lut=439_680, ff=879_360, dsp=2_880, bram=672, uram=320), _REGION, _REGION))
"""Source: AMD DS890, by the difference of the parts that are made of one, two and three of these regions."""


def _memory(depth: int, bits: int) -> Resources:
    """Count the RAMs of a memory: ultra RAM above 2048 words, LUTs up to 64 words, block RAM between."""
    if depth <= _SMALL_DEPTH:
        return Resources(lut=Fraction(depth * bits, 64))
    if depth > DEEPEST_BLOCK_RAM:
        return _ultra(depth, bits)
    return _block(depth, bits)


def _block(depth: int, bits: int) -> Resources:
    """Count the block RAMs of a memory; each is two halves, which need not belong together."""
    return Resources(bram=Fraction(-(-2 * bits // _BLOCK_BITS), 2) * -(-depth // _BLOCK_DEPTH))


def _ultra(depth: int, bits: int) -> Resources:
    """Count the ultra RAMs of a memory."""
    return Resources(uram=-(-bits // _ULTRA_BITS) * -(-depth // _ULTRA_DEPTH))


def of_channel(config: Config) -> Resources:
    """Estimate what a channel needs, as :func:`estimate`."""
    vector_bits = config.lanes * BINARY32.width
    units = [
        _weights(config),
        _memory(config.scratch_depth // config.scratch_banks, vector_bits) * config.scratch_ports,
        *(_integer_products(config) if config.integers else _products(config)),
        OF_PE * config.lanes,
        OF_ACTIVATION * config.activation_units,
        OF_COEFFICIENTS * -(-config.activation_units // READERS),
        OF_READER,
        _transposer(config),
    ]
    return sum(units, Resources())


def _weights(config: Config) -> Resources:
    """Count the RAMs of the weights: for each vector of a row one for each beat. Two streams share a copy."""
    memories = config.row_vectors * config.vector_beats * -(-config.integer_streams // 2)
    return _memory(config.weight_depth // config.row_vectors, config.beat_bits) * memories


def _transposer(config: Config) -> Resources:
    """Count the block RAMs of the transposer's memories, each of a word's width; no LUTs."""
    return _block(1, BINARY32.width) * ram_styles(config.beat_words, config.vector_beats).count("block")


def _products(config: Config) -> list[Resources]:
    """List what products need beside PEs and weights: partial sums and biases."""
    return [_memory(depth, config.lanes * BINARY32.width) for depth in (config.queue_depth, config.bias_depth)]


def _integer_products(config: Config) -> list[Resources]:
    """List what the streams' products need beside weights: PEs and sums."""
    sums = _memory(config.queue_depth, config.lanes * SUM_BITS)
    return [(OF_INTEGER_PE * (config.integer_pes * config.lanes) + sums) * config.integer_streams]


def _of_broadcaster(config: Config) -> Resources:
    lines = config.broadcast_words // config.beat_words
    if not config.integers:
        return _ultra(2 * lines, config.beat_bits) + OF_READER
    masks = _block(BANK_ARRAYS * lines, config.beat_bytes)  # which bytes are not zero
    of_bank = _memory(BANK_ARRAYS * lines, config.beat_bits) + masks
    return of_bank * (SENT_BANKS * config.integer_streams) + OF_READER * config.broadcaster_ports


def estimate(config: Config) -> Resources:
    """Estimate the resources that a machine needs, from its PEs, tables and memories.

    Flip-flops and control logic are not in it. ``eta-lstm hw resources`` synthesises everything.
    """
    return of_channel(config) * config.channels + _of_broadcaster(config) * config.broadcasters


def check_fit(config: Config, part: Part, channels: Sequence[int], name: str) -> None:
    """Refuse a configuration that the part cannot hold, or whose channels a region cannot.

    `channels` says how many channels lie in each region.

    Raises
    ------
    ValueError
        The message says what of which kind is needed, and what there is.
    """
    places = [(name, estimate(config), part.whole)]
    for region, count in enumerate(channels):
        where = f"region {region} of the {name} with {count} channels"
        places.append((where, of_channel(config) * count, part.regions[region]))
    for where, needed, there in places:
        over = [
            f"{float(getattr(needed, kind)):,.0f} {label} of {getattr(there, kind):,}"
            for kind, label in _LABELS.items()
            if getattr(needed, kind) > getattr(there, kind)
        ]
        if over:
            raise ValueError(f"{config.pes} PEs do not fit the {where}: they need about {', '.join(over)}")
