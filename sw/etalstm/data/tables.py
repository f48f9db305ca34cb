"""Tables of a user: CSV and TSV, with or without a line of names; errors say line and column."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from etalstm.data.files import LARGEST_BYTES, read_text
from etalstm.errors import DataError

TEXTS = ("text", "sentence", "question", "review", "content", "comment", "message", "token", "word", "title")
LABELS = ("label", "class", "category", "target", "tag", "sentiment", "topic", "answer", "y")
SEQUENCES = ("sequence", "sequence_id")
LARGEST_NUMBER = float(np.finfo(np.float32).max)
DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class Row:
    """A row of a table: the line it ends on, and its fields, none for a blank line."""

    line: int
    fields: list[str]


class Table:
    """A file of rows.

    The path ends on one of ``DELIMITERS``. With `header` the first line has the names of the columns, without it the
    columns are called 1, 2, 3, and so on. None: it has them if one of `names` is in it, the columns that the user
    names; or a well-known name that stands in no other row of its column. Names of digits do not count, as they may be
    numbers of the first row. `notes` say what was guessed. Raises :class:`DataError` if the file cannot be read, rows
    have unequal numbers of fields, or two columns have one name.
    """

    def __init__(self, path: Path, names=(), header: bool | None = None):
        self.path = path
        self.notes: list[str] = []
        self.rows = self._read(path, DELIMITERS[path.suffix.lower()])
        first = next(row for row in self.rows if row.fields)
        headed = self._is_header(first, names) if header is None else header
        self.columns = [(headed and field.strip()) or str(n) for n, field in enumerate(first.fields, 1)]
        if headed:
            self._check_names(first)
            self.rows.remove(first)
        for row in self.rows:
            if row.fields and len(row.fields) != len(self.columns):
                raise DataError(f"{path}, line {row.line}: {len(row.fields)} fields, expected {len(self.columns)}")
        if not any(row.fields for row in self.rows):
            raise DataError(f"{path}: has no rows below its line of names")

    def _is_header(self, first: Row, names) -> bool:
        """Guess whether the first line has the names of the columns."""
        fields = [field.strip().lower() for field in first.fields]
        if {name.lower() for name in names if not name.isdigit()} & set(fields):
            return True
        below = [row.fields for row in self.rows if row is not first]
        known = [n for n, name in enumerate(fields) if name in (*TEXTS, *LABELS, *SEQUENCES)]
        if any(all(fields[n] != field.strip().lower() for row in below for field in row[n : n + 1]) for n in known):
            self.notes.append(f"{self.path}: line {first.line} is taken for names of columns; if not: --no-header")
            return True
        self.notes.append(
            f"{self.path}: no line of names, so columns are 1 to {len(fields)}; if line {first.line} has them, "
            "give one: --label NAME"
        )
        return False

    def _check_names(self, first: Row) -> None:
        """Refuse two columns of one name: columns are found by their names, in any case."""
        seen = set()
        for name in self.columns:
            if name.lower() in seen:
                raise DataError(f"{self.path}, line {first.line}: two columns have the name {name!r}")
            seen.add(name.lower())

    @staticmethod
    def _read(path: Path, delimiter: str) -> list[Row]:
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
        csv.field_size_limit(LARGEST_BYTES)  # files are not larger; by default fields end at 131,072 characters
        lines = io.StringIO(read_text(path), newline="")
        reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True, skipinitialspace=delimiter == ",")
        rows: list[Row] = []
        try:
            rows.extend(Row(reader.line_num, fields) for fields in reader)
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num}: {error}") from error
        return rows

    def find(self, name: str | None, known: tuple[str, ...]) -> int | None:
        """Give the number of the column of a name, or without a name of one of the well-known names; None if none has.

        A name of digits that no column has is the column's number, from 1 on. Raises :class:`DataError` if there is no
        column of the name that is given.
        """
        lowered = [column.lower() for column in self.columns]
        names = known if name is None else (name.lower(),)
        found = next((lowered.index(column) for column in names if column in lowered), None)
        if name is not None and found is None and name.isdecimal() and 0 < int(name) <= len(lowered):
            return int(name) - 1
        if name is not None and found is None:
            raise DataError(f"{self.path}: has no column {name!r}; there are: {', '.join(self.columns)}")
        return found

    def where(self, row: Row, column: int) -> str:
        """Give file, line and column of a field, for messages."""
        return f"{self.path}, line {row.line}, column {self.columns[column]}"

    def text(self, row: Row, column: int) -> str:
        """Give a field; :class:`DataError` if it is empty."""
        value = row.fields[column].strip()
        if not value:
            raise DataError(f"{self.where(row, column)}: empty")
        return value

    def number(self, row: Row, column: int) -> float:
        """Give a field as a number; :class:`DataError` if it is none, or not finite in float32."""
        text = self.text(row, column)
        try:
            value = float(text.replace("_", " "))  # Python reads 1_000 as a number
        except ValueError as error:
            raise DataError(f"{self.where(row, column)}: {text[:40]!r} is no number") from error
        if not abs(value) <= LARGEST_NUMBER:
            raise DataError(f"{self.where(row, column)}: must be finite in float32, got {text[:40]!r}")
        return value

    def vectors(self, sequences: list[list[Row]], columns: list[int]) -> list[np.ndarray]:
        """Give the numbers of some columns for each sequence of rows, float32, (T, I); raises as :meth:`number`."""
        return [np.array([[self.number(row, n) for n in columns] for row in rows], np.float32) for rows in sequences]

    def columns_of_vector(self, names: tuple[str, ...], others: set[int | None]) -> list[int]:
        """Give the numbers of the columns of these names, in this order; without names all that are not in `others`.

        Raises :class:`DataError` if there is no column of one of the names.
        """
        named = [n for name in names if (n := self.find(name, ())) is not None]
        return named or [n for n in range(len(self.columns)) if n not in others]

    def sequences(self, column: int | None) -> list[list[Row]]:
        """Give the rows of each sequence: those with one value in a column, or without a column between blank lines."""
        found: dict[object, list[Row]] = {}
        blanks = 0
        for row in self.rows:
            if not row.fields:
                blanks += 1
                continue
            found.setdefault(blanks if column is None else self.text(row, column), []).append(row)
        return list(found.values())
