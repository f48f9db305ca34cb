"""What the checks of a self-test report."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """Something that is wrong.

    Members
    -------
    what : str
        What was seen.
    suspect : str
        Which part to look at.
    """

    what: str
    suspect: str


@dataclass
class Outcome:
    """What one check found.

    Members
    -------
    name : str
    detail : str
        What was checked, with its figures.
    findings : list of Finding
        Empty if all is well.
    seconds : float
    """

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
