"""Data sets: batches of sequences for the trainer.

``dataset`` says what a data set is; begin there. Known ones are a file each (``digits``, ``trajectories``, ``babi``)
or stand with their kind (``labelled``, ``streams``); ``an4`` is for research. Files of a user are read by ``tables``,
``arrays`` and ``raw`` and become a data set in ``own``. ``buckets`` groups sequences by length. A new data set is named
in this file.
"""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from etalstm.data.babi import Babi
from etalstm.data.batches import Batches
from etalstm.data.dataset import SPLITS, TASKS, Batch, DataSet
from etalstm.data.digits import Digits
from etalstm.data.encoding import UNITS, Encoding
from etalstm.data.labelled import Imdb, Mr, Trec
from etalstm.data.own import open_own
from etalstm.data.raw import Reading
from etalstm.data.sequences import Sequences, examples_of
from etalstm.data.streams import Ptb, Pydoc
from etalstm.data.trajectories import Trajectories

__all__ = [
    "BROUGHT",
    "BUNDLED",
    "DATASETS",
    "SPLITS",
    "TASKS",
    "UNITS",
    "Batch",
    "Batches",
    "DataSet",
    "Encoding",
    "Reading",
    "Sequences",
    "examples_of",
    "open_data",
    "open_dataset",
]

BUNDLED: dict[str, Callable[[], DataSet]] = {"digits": Digits, "pydoc": Pydoc}
BROUGHT: dict[str, Callable[[Path], DataSet]] = {  # the user has their files
    "babi": Babi, "ethucy": Trajectories, "imdb": Imdb, "mr": Mr, "ptb": Ptb, "trec": Trec,
}  # fmt: skip
DATASETS = (*BUNDLED, *BROUGHT)


def open_dataset(name: str, directory: Path | str | None = None) -> DataSet:
    """Load a data set by name, one of ``DATASETS``; those in ``BROUGHT`` need the directory of their files.

    Raises ``ValueError`` if there is no such data set (the message lists those there are), or it needs a directory or
    takes none, and :class:`DataError` if its files are missing or damaged.
    """
    if name not in DATASETS:
        raise ValueError(f"unknown data set {name!r}; there are: {', '.join(sorted(DATASETS))}")
    if name in BUNDLED:
        if directory is not None:
            raise ValueError(f"data set {name} comes with its data and takes no directory, got {directory}")
        return BUNDLED[name]()
    if directory is None:
        raise ValueError(f"data set {name} needs the directory of its files: --data DIR")
    return BROUGHT[name](Path(directory))


def open_data(settings, encoding: Encoding | None = None) -> DataSet:
    """Load the data set of a run's settings: their `dataset`, or with a `task` the user's own file as `data`.

    With the encoding of a trained network, the whole file of the user is the test split. Raises ``ValueError`` if there
    is neither or both, or as :func:`open_dataset`, and :class:`DataError` if files are missing or malformed.
    """
    if settings.task is None:
        if settings.dataset is None:
            raise ValueError("there must be a data set (--dataset NAME), or a file and what to learn (--data, --task)")
        return open_dataset(settings.dataset, settings.data)
    if settings.dataset is not None:
        raise ValueError(f"task {settings.task} is for a file of one's own, not for data set {settings.dataset}")
    if settings.data is None:
        raise ValueError(f"task {settings.task} needs the file to learn from: --data FILE")
    names = {field.name for field in fields(Reading)} & {field.name for field in fields(settings)}
    reading = Reading(**{name: getattr(settings, name) for name in names})
    return open_own(Path(settings.data), reading, encoding)
