"""The commands of ``eta-lstm``. Each is a function of its own name, in the module that is named here.

To add one, write its module and name it here. A command's module is imported when that command is run.
"""

COMMANDS = {
    "train": "train",
    "launch": "launch",
    "evaluate": "evaluate",
    "predict": "predict",
    "generate": "generate",
    "export": "export",
    "plot": "plot",
    "compare": "compare",
    "plan": "plan",
    "model": "model",
    "trace": "trace",
    "compress": "compress",
    "paper": "paper",
    "verilog": "verilog",
    "build": "build",
    "program": "program",
    "contract": "contract",
    "selftest": "selftest",
}
BENCHES = {
    "iteration": "iteration",
    "skip": "skip",
    "shares": "shares",
    "codec": "codec",
    "boards": "boards",
    "epochs": "epochs",
    "scaling": "scaling",
    "golden": "bench",
    "torch": "torch",
    "reduced": "reduced",
    "layout": "layout",
    "activation": "activation",
    "faults": "faults",
    "programs": "programs",
    "coverage": "coverage",
    "endurance": "endurance",
    "arithmetic": "arithmetic",
    "simulators": "simulators",
    "buckets": "buckets",
    "attention": "attention",
}
REPORT = "report"  # of the group itself; its commands:
REPORTS = {"resources": "resources"}
STUDIES = {
    "density": "density",
    "translation": "translation_study",
    "choose": "choose",
    "sizes": "sizes",
    "compress": "shrinking",
}
PROFILES = {"latency": "latency", "draw": "profile_figure"}
TRANSLATIONS = {"train": "translation", "run": "translation", "evaluate": "translation"}
