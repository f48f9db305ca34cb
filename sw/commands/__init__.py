"""The commands of ``eta-lstm``, one module each. To add one, write its function and name it here."""

from etalstm.commands.activation import activation
from etalstm.commands.bench import golden
from etalstm.commands.build import build
from etalstm.commands.codec import codec
from etalstm.commands.compare import compare
from etalstm.commands.contract import contract
from etalstm.commands.density import density
from etalstm.commands.evaluate import evaluate
from etalstm.commands.export import export
from etalstm.commands.generate import generate
from etalstm.commands.iteration import iteration
from etalstm.commands.model import model
from etalstm.commands.plan import plan
from etalstm.commands.predict import predict
from etalstm.commands.program import program
from etalstm.commands.report import report
from etalstm.commands.resources import resources
from etalstm.commands.selftest import selftest
from etalstm.commands.shares import shares
from etalstm.commands.simulators import simulators
from etalstm.commands.skip import skip
from etalstm.commands.train import train
from etalstm.commands.verilog import verilog

COMMANDS = {
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
    "generate": generate,
    "export": export,
    "compare": compare,
    "plan": plan,
    "model": model,
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
    "activation": activation,
    "simulators": simulators,
}
REPORT = report  # of the group itself; its commands:
REPORTS = {"resources": resources}
STUDIES = {"density": density}
