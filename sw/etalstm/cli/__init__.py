"""The command line, ``eta-lstm``: its commands are functions of their names, in modules and folders by purpose.

:data:`TREE` names them all, each with its module. To add a command, write its function and name it there. A module is
imported when one of its commands runs. ``options`` declares what several commands share, ``parser`` and ``application``
put the tree together, ``catalogue`` knows names and options, also those of earlier releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SIGNAL_EXIT = 128  # plus the signal's number: the exit code that shells give a process that a signal has ended


@dataclass(frozen=True)
class Group:
    """Commands under one name."""

    commands: Mapping[str, "str | Group"]  # by name: the module of a command's function, or a group
    help: str = ""  # of a group without a module
    module: str = ""  # of the function that runs where no command follows the group's name; empty: there is none


def _modules(folder: str, *commands: str) -> dict[str, str]:
    """Give the module of each command of a folder: it has the command's name."""
    return {name: f"{folder}.{name}" for name in commands}


HW = _modules("hw", "verilog", "build", "program", "report", "resources", "contract", "selftest")
VERIFY = _modules("verify", "compare", "arithmetic", "activation", "faults", "programs", "coverage", "endurance")
BENCH = _modules(
    "bench", "iteration", "golden", "torch", "skip", "shares", "codec", "buckets", "epochs", "boards", "scaling",
    "simulators",
)  # fmt: skip
STUDY = dict.fromkeys(("density", "translation", "choose", "sizes", "compress", "draw"), "research.study")
TRANSLATE = dict.fromkeys(("train", "run", "evaluate"), "research.translate")
PROFILE = dict.fromkeys(("latency", "draw"), "research.profile")
RESEARCH: dict[str, str | Group] = {
    "paper": "research.paper",
    "study": Group(STUDY, "Train many times and compare."),
    "compress": "research.compress",
    "translate": Group(TRANSLATE, "Train a model that translates sentences, and use it."),
    "profile": Group(PROFILE, "Find out what a machine does with a network of a size."),
    **_modules("research", "roofline", "integers", "reduced", "layout", "attention"),
}
COMMANDS: dict[str, str | Group] = {
    "train": "train",
    **dict.fromkeys(("evaluate", "predict", "generate", "export"), "using"),
    "plot": "using",
    "launch": "launch",
    "plan": Group({"check": "plan"}, module="plan"),
    "model": Group({"check": "model_check", "trace": "model"}, module="model"),
    "hw": Group(HW, "Make the machine: Verilog, bitstream, what it costs, and a test of one that is there."),
    "verify": Group(VERIFY, "Compare devices bit for bit, prove arithmetic, and inject faults."),
    "bench": Group(BENCH, "Measure iterations, parts of the machine, simulators and several boards."),
    "research": Group(RESEARCH, "The source paper's comparison, studies, and work that builds on the machine."),
}
TREE = Group(COMMANDS, "Train LSTMs on the η-LSTM accelerator.")
