"""The commands of ``eta-lstm``, one module each. To add one, write its function and name it here."""

from etalstm.commands.bench import golden
from etalstm.commands.train import train

COMMANDS = {"train": train}
BENCHES = {"golden": golden}
