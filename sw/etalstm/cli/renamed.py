"""Names that commands had in version 0.1. They go on to work until the release after 0.2, and say the new ones."""

from collections.abc import Sequence

NEW_NAMES = {
    "trace": "model trace",
    "model --check": "model check",
    "plan --check": "plan check",
    "verilog": "hw verilog",
    "build": "hw build",
    "program": "hw program",
    "report resources": "hw resources",
    "report": "hw report",
    "contract": "hw contract",
    "selftest": "hw selftest",
    "compare": "verify compare",
    "bench arithmetic": "verify arithmetic",
    "bench activation": "verify activation",
    "bench faults": "verify faults",
    "bench programs": "verify programs",
    "bench coverage": "verify coverage",
    "bench endurance": "verify endurance",
    "paper": "research paper",
    "study": "research study",
    "compress": "research compress",
    "translate": "research translate",
    "profile": "research profile",
    "bench reduced": "research reduced",
    "bench layout": "research layout",
    "bench attention": "research attention",
}
"""By old name the new one. An option stands anywhere behind its command's name, the other words at the beginning."""


def renamed(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Give the arguments with a command's new name, and the old name; None if the name is no old one.

    Parameters
    ----------
    arguments : list of str
        From the command's name on.
    """
    for old, new in NEW_NAMES.items():
        words = [word for word in old.split() if not word.startswith("-")]
        modes = [word for word in old.split() if word.startswith("-")]
        if [*arguments[: len(words)]] == words and all(mode in arguments for mode in modes):
            rest = [word for word in arguments[len(words) :] if word not in modes]
            return [*new.split(), *rest], old
    return [*arguments], None
