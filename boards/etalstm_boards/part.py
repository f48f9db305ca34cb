"""Resources of the FPGA part, an estimate of those that a configuration needs, and whether they fit."""

from dataclasses import astuple, dataclass, fields
from fractions import Fraction

from etalstm_hw.config import Config
from etalstm_hw.contract import BINARY32

_DSP_OF_MULTIPLIER = 2  # a 24 × 24 product in DSP48E2, by Yosys
_DSP_OF_ADDER = 2
_DSP_OF_ACTIVATION = 4
_LUT_OF_PE = 450  # multiplier 90, adder 230, operands 130, by Yosys; an upper bound
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

XCVU37P = Resources(lut=1_303_680, ff=2_607_360, dsp=9_024, bram=2_016, uram=960)


def _memory(depth: int, bits: int) -> Resources:
    """Count the RAMs of a memory: ultra RAM above 2048 words, LUTs up to 64 words, block RAM between."""
    if depth <= _SMALL_DEPTH:
        return Resources(lut=Fraction(depth * bits, 64))
    if depth > _ULTRA_DEPTH // 2:
        return _ultra(depth, bits)
    return Resources(bram=-(-bits // _BLOCK_BITS) * -(-depth // _BLOCK_DEPTH))


def _ultra(depth: int, bits: int) -> Resources:
    """Count the ultra RAMs of a memory."""
    return Resources(uram=-(-bits // _ULTRA_BITS) * -(-depth // _ULTRA_DEPTH))


def estimate(config: Config) -> Resources:
    """Estimate the resources that a machine needs, from its lanes and its memories; flip-flops are not estimated.

    Source of the unit costs: Yosys, ``synth_xilinx -family xcup``, of single units. ``eta-lstm hw resources``
    synthesises them all.
    """
    vector_bits = config.lanes * BINARY32.width
    memories = [
        _memory(config.weight_depth, vector_bits),
        _memory(config.scratch_depth, vector_bits) * config.scratch_reads,
        _memory(config.queue_depth, vector_bits),
        _memory(config.bias_depth, vector_bits),
    ]
    activations = config.channels * config.activation_units
    buffers = _ultra(2 * config.broadcast_words // config.beat_words, config.beat_bits)
    return Resources(
        lut=config.pes * _LUT_OF_PE + config.channels * sum(memory.lut for memory in memories),
        dsp=config.pes * (_DSP_OF_MULTIPLIER + _DSP_OF_ADDER) + activations * _DSP_OF_ACTIVATION,
        bram=config.channels * sum(memory.bram for memory in memories),
        uram=config.channels * sum(memory.uram for memory in memories) + config.broadcasters * buffers.uram,
    )


def check_fit(config: Config, part: Resources, name: str) -> None:
    """Refuse a configuration that the part cannot hold.

    Raises
    ------
    ValueError
        If it needs more DSPs or RAMs than there are; the message says which and how many. LUTs are not checked, as
        their estimate is an upper bound.
    """
    needed = estimate(config)
    over = [
        f"{getattr(needed, kind)} {label} of {getattr(part, kind)}"
        for kind, label in (("dsp", "DSPs"), ("bram", "block RAMs"), ("uram", "ultra RAMs"))
        if getattr(needed, kind) > getattr(part, kind)
    ]
    if over:
        raise ValueError(f"{config.pes} PEs do not fit the {name}: they need about {', '.join(over)}")
