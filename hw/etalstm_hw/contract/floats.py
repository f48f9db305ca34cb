"""Number formats."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format without subnormals.

    Parameters
    ----------
    exponent : int
        Bits of the biased exponent, 3 to 11.
    mantissa : int
        Bits of the stored fraction, 2 to 52; the leading one is implied.

    Raises
    ------
    ValueError
        If a size is outside its range.
    """

    exponent: int
    mantissa: int

    def __post_init__(self):
        if not 3 <= self.exponent <= 11:
            raise ValueError(f"exponent must have 3 to 11 bits, got {self.exponent}")
        if not 2 <= self.mantissa <= 52:
            raise ValueError(f"mantissa must have 2 to 52 bits, got {self.mantissa}")

    @property
    def width(self) -> int:
        """Bits of a word: sign, exponent, fraction."""
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        """What is added to the exponent before it is stored."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def nan(self) -> int:
        """The one quiet NaN that operations produce."""
        return ((1 << self.exponent) - 1) << self.mantissa | 1 << (self.mantissa - 1)

    @property
    def infinity(self) -> int:
        """Positive infinity."""
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def minus_zero(self) -> int:
        """The word of -0.0."""
        return 1 << (self.width - 1)

    @property
    def one(self) -> int:
        """The word of 1.0."""
        return self.bias << self.mantissa


BINARY32 = FloatFormat(exponent=8, mantissa=23)
