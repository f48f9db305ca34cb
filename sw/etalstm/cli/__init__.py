"""The command line, ``eta-lstm``: its commands are in folders by purpose, a command in the module of its name.

:data:`TREE` names them all. To add a command, write its module and name it there. A command is a function of its own
name; its module is imported when it runs. ``options`` declares what several commands share, ``parser`` and
``application`` put the tree together, ``renamed`` has the names of earlier releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SIGNAL_EXIT = 128  # and the signal's number: what shells say of a process that a signal has ended


@dataclass(frozen=True)
class Group:
    """Commands under one name.

    Members
    -------
    commands : mapping
        By name: the module of a command's function, or a group.
    help : str
        Of a group without a module.
    module : str
        Of the function that the group's name alone runs; none if empty.
    """

    commands: Mapping[str, "str | Group"]
    help: str = ""
    module: str = ""


HW = {
    "verilog": "hw.verilog",
    "build": "hw.build",
    "program": "hw.program",
    "report": "hw.report",
    "resources": "hw.resources",
    "contract": "hw.contract",
    "selftest": "hw.selftest",
}
VERIFY = {
    "compare": "verify.compare",
    "arithmetic": "verify.arithmetic",
    "activation": "verify.activation",
    "faults": "verify.faults",
    "programs": "verify.programs",
    "coverage": "verify.coverage",
    "endurance": "verify.endurance",
}
BENCH = {
    "iteration": "bench.iteration",
    "golden": "bench.golden",
    "torch": "bench.torch",
    "skip": "bench.skip",
    "shares": "bench.shares",
    "codec": "bench.codec",
    "buckets": "bench.buckets",
    "epochs": "bench.epochs",
    "boards": "bench.boards",
    "scaling": "bench.scaling",
    "simulators": "bench.simulators",
}
STUDY = {
    "density": "research.study",
    "translation": "research.study",
    "choose": "research.study",
    "sizes": "research.study",
    "compress": "research.study_compress",
}
TRANSLATE = dict.fromkeys(("train", "run", "evaluate"), "research.translate")
PROFILE = dict.fromkeys(("latency", "draw"), "research.profile")
RESEARCH: dict[str, str | Group] = {
    "paper": "research.paper",
    "study": Group(STUDY, "Train many times and compare."),
    "compress": "research.compress",
    "translate": Group(TRANSLATE, "Train a model that translates sentences, and use it."),
    "profile": Group(PROFILE, "Find out what a machine does with a network of a size."),
    "reduced": "research.reduced",
    "layout": "research.layout",
    "attention": "research.attention",
}
COMMANDS: dict[str, str | Group] = {
    "train": "train",
    **dict.fromkeys(("evaluate", "predict", "generate", "export"), "using"),
    "plot": "plot",
    "launch": "launch",
    "plan": Group({"check": "plan"}, module="plan"),
    "model": Group({"check": "model_check", "trace": "model_trace"}, module="model"),
    "hw": Group(HW, "Make the machine: Verilog, bitstream, what it costs, and a test of one that is there."),
    "verify": Group(VERIFY, "Compare devices bit for bit, prove arithmetic, and inject faults."),
    "bench": Group(BENCH, "Measure iterations, parts of the machine, simulators and several boards."),
    "research": Group(RESEARCH, "The source paper's comparison, studies, and work that builds on the machine."),
}
TREE = Group(COMMANDS, "Train LSTMs on the η-LSTM accelerator.")
