"""Raw examples of a user's files, before texts become tokens and labels numbers; and how the files are read."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from etalstm.data.dataset import LANGUAGE, REGRESS, TAG
from etalstm.data.encoding import CHARACTERS, WORDS, Encoding, split
from etalstm.data.sequences import Example
from etalstm.data.tables import LABELS, SEQUENCES, TEXTS, Row, Table
from etalstm.errors import DataError


@dataclass(frozen=True)
class Columns:
    """The names of the columns that were read from a table, see :class:`Reading`; None where it has none."""

    text: str | None = None
    label: str | None = None
    sequence: str | None = None
    vector: tuple[str, ...] = ()


def is_numbered(*names: str | None) -> bool:
    """Tell whether columns, None where there is none, are those of a table without a line of names."""
    return {name.isdecimal() for name in names if name is not None} == {True}


@dataclass(frozen=True)
class Reading:
    """How a user's file is read.

    Raises ``ValueError`` if the task is ``tag`` and tokens are not words: a tag belongs to a word of the table.
    """

    task: str  # one of :data:`etalstm.data.TASKS`
    # one of :data:`etalstm.data.UNITS`; words if not given, for the task ``language`` characters
    tokens: str | None = None
    lower: bool = False  # texts are taken in lower case
    # at most so many tokens, the most frequent ones of the training split; others become the unknown token
    vocabulary: int | None = None
    # text, label, sequence: columns of the text; of class, tag or number; and of the sequence that a row belongs to.
    # The first two are guessed if not given. The third may be left out if its column is called ``sequence``.
    text: str | None = None
    label: str | None = None
    sequence: str | None = None
    no_header: bool = False  # tables have no line of names; if not given, this is guessed
    # validation, test: files of these splits; shares of the file if not given
    validation: str | None = None
    test: str | None = None
    # validation_share, test_share: those shares
    validation_share: float = 0.1
    test_share: float = 0.1
    split_seed: int = 0  # of the random division of examples into splits
    # columns of a step's numbers, in their order, where sequences are vectors; if empty, all columns but those of label
    # and sequence
    vector: tuple[str, ...] = ()

    def __post_init__(self):
        if self.task == TAG and self.unit != WORDS:
            raise ValueError(f"tokens must be {WORDS} for the task {TAG}, got {self.tokens!r}")

    def by(self, columns: Columns) -> "Reading":
        """Give the reading of another file with the columns of the first file."""
        found = {name: column for name, column in asdict(columns).items() if column is not None and column != ()}
        no_header = is_numbered(columns.text, columns.label, columns.sequence, *columns.vector)
        return replace(self, **found, no_header=no_header)

    @property
    def unit(self) -> str:
        """What a token is."""
        return self.tokens or (CHARACTERS if self.task == LANGUAGE else WORDS)

    @property
    def files(self) -> dict[str, str]:
        """The splits that have files of their own."""
        return {split: file for split, file in (("validation", self.validation), ("test", self.test)) if file}

    @property
    def shares(self) -> dict[str, float]:
        """The shares of the data file that become the splits without files of their own."""
        shares = {"validation": self.validation_share, "test": self.test_share}
        return {split: share for split, share in shares.items() if split not in self.files}


TOKENS = ("token", "word")
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Raw:
    """Examples of a file."""

    path: Path
    inputs: list  # of sequences of tokens' texts, or of arrays: tokens, int64, (T,), or vectors, float32, (T, I)
    targets: list  # of labels, of lists of labels (``tag``), or of float32 arrays (C,) (``regress``)
    where: list[str]  # where each example is, for messages
    notes: list[str] = field(default_factory=list)  # what was guessed
    columns: Columns = field(default_factory=Columns)  # of a table; other files are read by the same ones

    @property
    def texts(self) -> bool:
        """Whether inputs are texts."""
        return not isinstance(self.inputs[0], np.ndarray)

    def take(self, numbers: list[int]) -> "Raw":
        """Give some of the examples."""
        inputs, targets, where = ([each[n] for n in numbers] for each in (self.inputs, self.targets, self.where))
        return Raw(self.path, inputs, targets, where, self.notes, self.columns)

    def learn(self, reading: Reading) -> Encoding:
        """Make the encoding of these examples, those of the training split.

        Raises :class:`DataError` if there is one class only.
        """
        labels = () if reading.task == REGRESS else self._labels(reading)
        if not self.texts:
            return Encoding(labels=labels, **asdict(self.columns))
        others = asdict(self.columns)
        return Encoding.learn(self.inputs, reading.unit, reading.lower, reading.vocabulary, labels=labels, **others)

    def _labels(self, reading: Reading) -> tuple[str, ...]:
        found = {tag for tags in self.targets for tag in tags} if reading.task == TAG else set(self.targets)
        if len(found) < 2:
            raise DataError(f"{self.path}: all of the training is of one class, {found.pop()!r}; there must be two")
        return tuple(sorted(found, key=_sort_key))

    def examples(self, encoding: Encoding, task: str) -> list[Example]:
        """Give the examples with tokens and labels as numbers.

        Raises :class:`DataError` if an example has no token, or its class is not in the training; the message says
        where.
        """
        labels = {label: number for number, label in enumerate(encoding.labels)}

        def number(label: str, where: str) -> int:
            if label not in labels:
                raise DataError(f"{where}: no example of the class {label!r} is in the training")
            return labels[label]

        found = []
        for x, target, where in zip(self.inputs, self.targets, self.where, strict=True):
            x = encoding.number(x) if self.texts else x
            if not len(x):
                raise DataError(f"{where}: has no token")
            if task == TAG:
                target = np.array([number(tag, where) for tag in target], np.int64)
            elif task != REGRESS:
                target = number(target, where)
            found.append(Example(x, target))
        return found


def _sort_key(label: str) -> tuple:
    """Give the key by which labels are sorted: decimal numbers by their value first, then all others as texts.

    Exact, and no two labels are alike: ``nan``, ``inf`` and ``1e3`` are texts, ``1``, ``1.0`` and ``01`` three labels.
    """
    return (0, Decimal(label), label) if _DECIMAL.fullmatch(label) else (1, Decimal(0), label)


def read_table(path: Path, reading: Reading) -> Raw:
    """Read a table. Its rows are texts; with a sequence column, or for the task ``tag``, they are steps."""
    names = [name for name in (reading.text, reading.label, reading.sequence, *reading.vector) if name]
    table = Table(path, names, False if reading.no_header else None)
    sequence = table.find(reading.sequence, SEQUENCES)
    tokens = table.find(reading.text, TOKENS)
    if reading.task == TAG and (tokens is not None or sequence is None):
        return _read_tagged(table, reading, sequence, tokens)
    return _read_texts(table, reading) if sequence is None else _read_vectors(table, reading, sequence)


def _target(reading: Reading) -> Callable[[Table, Row, int], Any]:
    if reading.task == REGRESS:
        return lambda table, row, column: np.array([table.number(row, column)], np.float32)
    return Table.text


def _two_columns(table: Table, reading: Reading, first: int | None, known: tuple[str, ...]) -> tuple[int, int, list]:
    """Find the columns of text and label, and note what was guessed; :class:`DataError` if one cannot be told.

    `first` is the column of the text if it has been found already, `known` are usual names of such columns. In a table
    of two columns a known name of one decides the other. If neither has a known name, the label is the column with
    fewer different values.
    """
    text = table.find(reading.text, known) if first is None else first
    label = table.find(reading.label, LABELS)
    text = None if text == label and reading.label else text  # the user's --label overrides a known name of texts
    count = len(table.columns)
    if count == 2 and text is None and label is None:
        rows = [row.fields for row in table.rows if row.fields]
        label = min((0, 1), key=lambda column: len({fields[column] for fields in rows}))
    if count == 2 and text is None and label is not None:
        text = 1 - label
    if count == 2 and label is None and text is not None:
        label = 1 - text
    if text is None or text == label:
        raise _unclear_column(table, "text")
    if label is None:
        raise _unclear_column(table, "label")
    note = f"{table.path}: text is column {table.columns[text]}, label is column {table.columns[label]}"
    return text, label, [*([] if reading.text and reading.label else [note]), *table.notes]


def _unclear_column(table: Table, name: str) -> DataError:
    names = ", ".join(table.columns)
    return DataError(f"{table.path}: which column is the {name}? Name it: --{name} COLUMN; there are: {names}")


def _read_texts(table: Table, reading: Reading) -> Raw:
    text, label, notes = _two_columns(table, reading, None, TEXTS)
    target, rows = _target(reading), [row for row in table.rows if row.fields]
    inputs = [split(table.text(row, text), reading.unit, reading.lower) for row in rows]
    targets = [target(table, row, label) for row in rows]
    where = [f"{table.path}, line {row.line}" for row in rows]
    return Raw(table.path, inputs, targets, where, notes, _columns(table, text, label))


def _read_tagged(table: Table, reading: Reading, sequence: int | None, tokens: int | None) -> Raw:
    """Read rows of a token and its tag; a sequence is the rows between blank lines, or of one value of its column."""
    text, label, notes = _two_columns(table, reading, tokens, TOKENS)
    sequences = table.sequences(sequence)
    inputs = [[table.text(row, text) for row in rows] for rows in sequences]
    if reading.lower:
        inputs = [[token.lower() for token in tokens] for tokens in inputs]
    targets = [[table.text(row, label) for row in rows] for rows in sequences]
    columns = _columns(table, text, label, sequence)
    where = [f"{table.path}, line {rows[0].line}" for rows in sequences]
    return Raw(table.path, inputs, targets, where, notes, columns)


def _read_vectors(table: Table, reading: Reading, sequence: int) -> Raw:
    """Read rows of a step's numbers; the answer of a sequence is that of its last row."""
    label = table.find(reading.label, LABELS)
    if label is None:
        raise _unclear_column(table, "label")
    columns = table.columns_of_vector(reading.vector, {sequence, label})
    if not columns:
        raise DataError(f"{table.path}: there is no column of numbers beside sequence and label")
    sequences, target = table.sequences(sequence), _target(reading)
    inputs = table.vectors(sequences, columns)
    if reading.task == TAG:
        targets = [[table.text(row, label) for row in rows] for rows in sequences]
    else:
        targets = [target(table, rows[-1], label) for rows in sequences]
    vector = tuple(table.columns[n] for n in columns)
    note = f"{table.path}: a step is {', '.join(vector)}; label is column {table.columns[label]}"
    names = _columns(table, None, label, sequence, vector)
    where = [f"{table.path}, line {rows[0].line}" for rows in sequences]
    return Raw(table.path, inputs, targets, where, [note, *table.notes], names)


def _columns(
    table: Table, text: int | None, label: int, sequence: int | None = None, vector: tuple[str, ...] = ()
) -> Columns:
    """Give the columns by names; those of `vector` are names already, the others numbers."""
    by_text, by_label, by_sequence = (None if n is None else table.columns[n] for n in (text, label, sequence))
    return Columns(by_text, by_label, by_sequence, vector)
