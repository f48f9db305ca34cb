"""Short training runs on golden, and what their folders say."""

import json
from pathlib import Path

from etalstm.device import open_device
from etalstm.train.folder import METRICS
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings

LETTERS = str(Path(__file__).with_name("letters.csv"))  # 400 short texts of two classes
DIGITS = Settings("digits", hidden=8, batch=64, epochs=2, seed=3)
PYDOC = Settings("pydoc", hidden=12, layers=2, batch=16, steps=16, embedding=8, iterations=9, evaluation_batches=2)


def train(out, settings, resume=False, report=lambda entry: None):
    return Trainer(settings, open_device("golden"), out, resume).run(report)


def changed(settings, **changes):
    return Settings(**{**vars(settings), **changes})


def log(out):
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


def done(out):
    """What the log says was done, without how long it took, and without what the user changed or stopped on the way."""
    entries = [entry for entry in log(out) if entry["kind"] not in ("resumed", "interrupted")]
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in entries]
