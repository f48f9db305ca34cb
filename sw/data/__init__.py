"""Data sets."""

from etalstm.data.dataset import SPLITS, Batch, DataSet
from etalstm.data.digits import Digits
from etalstm.data.pydoc import Pydoc

__all__ = ["DATASETS", "SPLITS", "Batch", "DataSet", "open_dataset"]

DATASETS: dict[str, type[DataSet]] = {"digits": Digits, "pydoc": Pydoc}


def open_dataset(name: str) -> DataSet:
    """Load a data set by name.

    Raises
    ------
    ValueError
        If there is no such data set; the message lists those there are.
    """
    if name not in DATASETS:
        raise ValueError(f"unknown data set {name!r}; there are: {', '.join(sorted(DATASETS))}")
    return DATASETS[name]()
