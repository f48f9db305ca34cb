"""The commands of ``eta-lstm``, one module each. To add one, write its function and name it here."""

from etalstm.commands.bench import golden
from etalstm.commands.train import train
from etalstm.commands.verilog import verilog

COMMANDS = {"train": train, "verilog": verilog}
BENCHES = {"golden": golden}
