"""Floating-point words in hardware: taking them apart and putting results together."""

from amaranth.hdl import Cat, Mux
from amaranth.lib import data


class Float(data.StructLayout):
    """Layout of a word: fraction, exponent and sign, from bit 0 up.

    Called on a signal it gives a :class:`FloatView`.

    Parameters
    ----------
    format : FloatFormat
        Sizes of the fields.
    """

    def __init__(self, format):
        super().__init__({"fraction": format.mantissa, "exponent": format.exponent, "sign": 1})

    def __call__(self, target):
        """Look at ``target`` as a word of this layout."""
        return FloatView(self, target)


class FloatView(data.View):
    """A word and what can be told from its fields. A subnormal is a zero."""

    @property
    def is_zero(self):
        """The exponent field is 0, whatever the fraction."""
        return self.exponent == 0

    @property
    def is_nan(self):
        """Any NaN."""
        return self.exponent.all() & self.fraction.any()

    @property
    def significand(self):
        """The fraction under its leading one; meaningless for a zero."""
        return Cat(self.fraction, 1)


OUTCOME = data.StructLayout({"sign": 1, "zero": 1, "infinite": 1, "nan": 1})
"""What the operands alone decide about a result: ``nan`` before ``infinite``, ``infinite`` before ``zero``."""


def pack(format, rounded, outcome):
    """Make a word of a rounded result.

    Parameters
    ----------
    format : FloatFormat
        Format of the word.
    rounded : Value
        Fraction, and above it the biased exponent as a two's complement number of any size.
    outcome : View of OUTCOME
        Sign, and what overrules ``rounded``.

    Returns
    -------
    Value, ``format.width`` bits. An exponent below 1 gives a zero, one too large for the format an infinity.
    """
    exponent = rounded[format.mantissa :].as_signed()
    overflow = exponent >= (1 << format.exponent) - 1
    underflow = exponent < 1
    finite = Mux(outcome.zero | underflow, 0, rounded[: format.width - 1])
    magnitude = Mux(outcome.infinite | overflow, format.infinity, finite)
    return Mux(outcome.nan, format.nan, Cat(magnitude, outcome.sign))


def round_to_half(format, word):
    """Round a word to its upper half: to nearest, ties to even; NaNs stay NaNs, large values become infinite.

    Parameters
    ----------
    format : FloatFormat
        Format of the word; its upper half must hold sign, exponent and part of the fraction.
    word : Value

    Returns
    -------
    Value, width / 2 bits
    """
    half = format.width // 2
    kept, up = word[half:], word[half - 1] & (word[: half - 1].any() | word[half])
    nan = word[format.mantissa : -1].all() & word[: format.mantissa].any()
    return Mux(nan, kept | 1 << (format.mantissa - 1 - half), kept + up)[:half]
