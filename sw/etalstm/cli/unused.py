"""Options of ``eta-lstm train`` that a run would not use. They are refused: nobody shall think they had an effect."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from etalstm.data import DataSet
from etalstm.data.arrays import ARRAYS
from etalstm.data.dataset import LANGUAGE
from etalstm.data.encoding import BYTES
from etalstm.train.settings import COSINE, PLATEAU, SGD, STEP, Settings

COLUMNS = ("text", "label", "sequence")
TEXTS = ("tokens", "vocabulary", "lower")
SHARES = ("validation_share", "test_share")
SPLITTING = ("validation", "test", *SHARES, "split_seed")


class Unused(NamedTuple):
    """Settings that are not used on a condition.

    Members
    -------
    reason : str
        Goes on after "--option is ".
    names : tuple of str
        Of :class:`Settings`.
    applies : callable
        Of settings and data set; a true value if the settings are not used.
    """

    reason: str
    names: tuple[str, ...]
    applies: Callable[[Settings, DataSet], object]


CONDITIONS = (
    Unused("only used with --task", (*SPLITTING, *COLUMNS, *TEXTS), lambda run, _: run.task is None),
    Unused("not used with --task language", (*COLUMNS, "split_seed"), lambda run, _: run.task == LANGUAGE),
    Unused("not used with a file of arrays", (*COLUMNS, *TEXTS), lambda run, _: _is_arrays(run)),
    Unused("not used where inputs are vectors", ("embedding", "text", *TEXTS), lambda _, data: data.input_size),
    Unused("not used with --validation", ("validation_share",), lambda run, _: run.validation is not None),
    Unused("not used with --test", ("test_share",), lambda run, _: run.test is not None),
    Unused(
        "not used with --validation and --test", ("split_seed",), lambda run, _: None not in (run.validation, run.test)
    ),
    Unused("not used with --tokens bytes", ("vocabulary",), lambda run, _: run.tokens == BYTES),
    Unused("only used with --optimizer sgd", ("momentum",), lambda run, _: run.optimizer != SGD),
    Unused("not used with --optimizer sgd", ("beta1", "beta2", "epsilon"), lambda run, _: run.optimizer == SGD),
    Unused("not used with --schedule cosine", ("decay",), lambda run, _: run.schedule == COSINE),
    Unused("only used with --schedule cosine", ("floor",), lambda run, _: run.schedule != COSINE),
    Unused("only used with --schedule plateau", ("patience",), lambda run, _: run.schedule != PLATEAU),
    Unused(
        "only used with --ms2 or --ms2-steps", ("ms2_full_epochs", "ms2_without"), lambda run, _: run.skipping is None
    ),
    Unused("only used with --schedule step", ("step_epochs",), lambda run, _: run.schedule != STEP),
)


def _is_arrays(run: Settings) -> bool:
    return run.task is not None and Path(run.data).suffix.lower() == ARRAYS


def refuse_unused(given: Iterable[str], settings: Settings, data: DataSet) -> None:
    """Raise ``ValueError``, naming the option, if one of the settings that a user gave is not used.

    Parameters
    ----------
    given : iterable of str
        Names of settings.
    settings : Settings
        All of the run.
    data : DataSet
        That of the settings.
    """
    given = set(given)
    for unused in CONDITIONS:
        for name in unused.names:
            if name in given and unused.applies(settings, data):
                raise ValueError(f"--{name.replace('_', '-')} is {unused.reason}")
