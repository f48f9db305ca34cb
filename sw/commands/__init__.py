"""The commands of ``eta-lstm``, one module each. To add one, write its function and name it here."""

from etalstm.commands.activation import activation
from etalstm.commands.bench import golden
from etalstm.commands.build import build
from etalstm.commands.codec import codec
from etalstm.commands.compare import compare
from etalstm.commands.contract import contract
from etalstm.commands.density import density
from etalstm.commands.iteration import iteration
from etalstm.commands.model import model
from etalstm.commands.plan import plan
from etalstm.commands.plot import plot
from etalstm.commands.program import program
from etalstm.commands.report import report
from etalstm.commands.resources import resources
from etalstm.commands.selftest import selftest
from etalstm.commands.shares import shares
from etalstm.commands.simulators import simulators
from etalstm.commands.skip import skip
from etalstm.commands.torch import torch
from etalstm.commands.trace import trace
from etalstm.commands.train import train
from etalstm.commands.verilog import verilog

COMMANDS = {
    "train": train,
    "plot": plot,
    "compare": compare,
    "plan": plan,
    "model": model,
    "trace": trace,
    "verilog": verilog,
    "build": build,
    "program": program,
    "contract": contract,
    "selftest": selftest,
}
BENCHES = {
    "iteration": iteration,
    "skip": skip,
    "shares": shares,
    "codec": codec,
    "golden": golden,
    "torch": torch,
    "activation": activation,
    "simulators": simulators,
}
REPORT = report  # of the group itself; its commands:
REPORTS = {"resources": resources}
STUDIES = {"density": density}
