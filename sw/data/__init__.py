"""Data sets."""

from pathlib import Path

from etalstm.data.dataset import SPLITS, TASKS, Batch, DataSet
from etalstm.data.digits import Digits
from etalstm.data.encoding import UNITS, Encoding
from etalstm.data.ptb import Ptb
from etalstm.data.pydoc import Pydoc
from etalstm.data.trec import Trec

__all__ = [
    "BROUGHT",
    "BUNDLED",
    "DATASETS",
    "SPLITS",
    "TASKS",
    "UNITS",
    "Batch",
    "DataSet",
    "Encoding",
    "open_data",
    "open_dataset",
]

BUNDLED: dict[str, type[DataSet]] = {"digits": Digits, "pydoc": Pydoc}
BROUGHT: dict[str, type[DataSet]] = {"ptb": Ptb, "trec": Trec}  # the user has their files
DATASETS = BUNDLED | BROUGHT


def open_dataset(name: str, directory: Path | str | None = None) -> DataSet:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        A key of ``DATASETS``.
    directory : Path, optional
        Where the files of one in ``BROUGHT`` are.

    Raises
    ------
    ValueError
        If there is no such data set (the message lists those there are), or it needs a directory or takes none.
    DataError
        If its files are missing or damaged.
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


def open_data(settings) -> DataSet:
    """Load the data set of a run's settings; raises as :func:`open_dataset`."""
    return open_dataset(settings.dataset, settings.data)
