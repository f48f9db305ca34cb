"""Values, each with how it was obtained."""

from dataclasses import dataclass

GIGA, TERA = 1e9, 1e12
VERILOG, MODELLED, CPU, CITED, ASSUMED = "V", "M", "C", "L", "A"
PROVENANCE = {
    VERILOG: "measured on the Verilog",
    MODELLED: "modelled",
    CPU: "measured on the CPU",
    CITED: "from the literature",
    ASSUMED: "assumed",
}


@dataclass(frozen=True)
class Value:
    """A number.

    Members
    -------
    value : float
    unit : str
    how : str
        Letters of `PROVENANCE`, of everything that the number rests on.
    low, high : float, optional
        Its band.
    note : str
    """

    value: float
    unit: str
    how: str
    low: float | None = None
    high: float | None = None
    note: str = ""

    def __post_init__(self):
        if not self.how or not set(self.how) <= set(PROVENANCE):
            raise ValueError(f"provenance must be letters of {''.join(PROVENANCE)}, got {self.how!r}")

    @property
    def band(self) -> tuple[float, float]:
        """The ends of the band; ``ValueError`` without one."""
        if self.low is None or self.high is None:
            raise ValueError(f"{self.value} {self.unit} has no band")
        return self.low, self.high


def together(*how: str) -> str:
    """Join provenances: each letter once, in the order of `PROVENANCE`."""
    return "".join(letter for letter in PROVENANCE if any(letter in one for one in how))
