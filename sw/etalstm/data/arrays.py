"""Arrays of a user: ``.npz`` files, examples to learn from or sequences to answer."""

import zipfile
from pathlib import Path

import numpy as np

from etalstm.data.dataset import REGRESS, TAG
from etalstm.data.encoding import Encoding
from etalstm.data.files import LARGEST_BYTES, check_file
from etalstm.data.raw import Raw, is_numbered
from etalstm.data.sequences import Example, examples_of, lengths_of
from etalstm.data.tables import DELIMITERS, LABELS, SEQUENCES, Table
from etalstm.errors import DataError

ARRAYS = ".npz"


def load_arrays(path: Path, *needed: str) -> dict[str, np.ndarray]:
    """Read the arrays ``x``, ``y`` and ``lengths`` of an ``.npz`` file, or those of the three that it has.

    Raises :class:`DataError` if it is no such file, too large, or an array in `needed` is missing.
    """
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > LARGEST_BYTES:
            raise DataError(f"{path}: its arrays have {size:,} bytes, at most {LARGEST_BYTES:,} are read into memory")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("x", "y", "lengths") if name in file}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path}: no file of arrays: {error}") from error
    for name in needed:
        if name not in arrays:
            raise DataError(f"{path}: has no array {name}")
    return arrays


def read_arrays(path: Path, task: str) -> Raw:
    """Read examples; see :func:`examples_of`.

    Raises :class:`DataError` if the file or its arrays are malformed.
    """
    arrays = load_arrays(path, "x", "y")
    try:
        examples = examples_of(arrays["x"], arrays["y"], arrays.get("lengths"), task)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return raw_of(path, examples, task)


def raw_of(path: Path, examples: list[Example], task: str) -> Raw:
    """Give examples in the form of a file's, whose classes are named: the number of a class becomes its name."""
    targets: list = [example.target for example in examples]
    if task == TAG:
        targets = [[str(tag) for tag in tags] for tags in targets]
    elif task != REGRESS:
        targets = [str(target) for target in targets]
    return Raw(
        path, [example.x for example in examples], targets, [f"{path}, sequence {n}" for n in range(len(targets))]
    )


def read_inputs(path: Path, encoding: Encoding) -> list[np.ndarray]:
    """Read sequences to answer: tokens, int64, (T,), or vectors, float32, (T, I).

    The file has arrays, ``x`` and if lengths differ ``lengths``, or it is a table whose rows are the numbers of a step.
    A table's columns are found by the names in the trained network's encoding; the column of labels may be missing.
    Raises :class:`DataError` if the file or its contents are malformed.
    """
    kind = path.suffix.lower()
    if kind == ARRAYS:
        arrays = load_arrays(path, "x")
        try:
            lengths = lengths_of(arrays["x"], arrays.get("lengths"))
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        return [x[:length] for x, length in zip(arrays["x"], lengths, strict=True)]
    if kind not in DELIMITERS:
        raise DataError(f"{path}: the ending must be {', '.join(DELIMITERS)} or {ARRAYS}, got {path.suffix!r}")
    label = encoding.label
    names = [name for name in (encoding.sequence, label, *encoding.vector) if name]
    table = Table(path, names, False if is_numbered(*names) else None)
    column = table.find(encoding.sequence, SEQUENCES)
    if column is None:
        raise DataError(f"{path}: has no column that tells which sequence a row belongs to")
    absent = label is not None and label.lower() not in map(str.lower, table.columns)
    others = {column, None if absent else table.find(label, LABELS)}
    return table.vectors(table.sequences(column), table.columns_of_vector(encoding.vector, others))
