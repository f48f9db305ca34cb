"""Tables as people have them: each is read as it is meant, or refused in one line with line and column.

Labels are texts as they stand in the file. Each table here has 20 rows of either label, so that every split has both.
"""

import os
import subprocess
import sys

import pytest

from etalstm.data import SPLITS
from etalstm.data.own import open_own
from etalstm.data.raw import Reading
from etalstm.errors import DataError

ROWS = 40


def texts_with(*labels, header="text,label\n", row="film {n},{label}\n"):
    return header + "".join(row.format(n=n, label=labels[n % len(labels)]) for n in range(ROWS))


def steps_with(*values, header="sequence,a,b,label\n"):
    """Sequences of two steps; the numbers of each are those of `values`, one after the other."""
    lines = (f"{n},{values[n % len(values)]},{t},{'ud'[n % 2]}\n" for n in range(ROWS) for t in range(2))
    return header + "".join(lines)


def opened(tmp_path, content, task="classify", name="t.csv", encoding=None, **chosen):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_own(path, Reading(task, **chosen), encoding)


LABELS = {
    "a missing value of Python": (("0", "1", "nan"), ("0", "1", "nan")),
    "missing values of R and SQL": (("NA", "NULL", "x"), ("NA", "NULL", "x")),
    "infinities": (("inf", "-inf", "Infinity"), ("-inf", "Infinity", "inf")),
    "numbers of one value": (("1", "1.0", "01", "+1"), ("+1", "01", "1", "1.0")),
    "numbers by their value": (("10", "9", "-1", "0.5"), ("-1", "0.5", "9", "10")),
    "numbers beyond doubles": (("9007199254740993", "9007199254740992"), ("9007199254740992", "9007199254740993")),
    "powers of ten are texts": (("1e3", "2"), ("2", "1e3")),
    "underscores are texts": (("1_0", "2"), ("2", "1_0")),
    "digits of other scripts are texts": (("٣", "2"), ("2", "٣")),
    "leading zeros": (("007", "7"), ("007", "7")),
    "hexadecimal": (("0x1F", "31"), ("31", "0x1F")),
    "mixed case": (("Yes", "yes", "YES"), ("YES", "Yes", "yes")),
    "blanks around": ((" a", "b ", "\tc"), ("a", "b", "c")),
    "blanks within": (("very good", "very bad"), ("very bad", "very good")),
    "blanks that do not break": (("\u00a0a", "b\u00a0"), ("a", "b")),
    "names of truth": (("True", "False"), ("False", "True")),
    "names of columns": (("class", "label", "y"), ("class", "label", "y")),
    "umlauts, composed or not": (("\u00fc", "u\u0308"), ("u\u0308", "\u00fc")),
    "other scripts": (("好", "悪い", "😀"), ("好", "悪い", "😀")),
    "signs": (("+", "-"), ("+", "-")),
    "dates": (("2024-01-02", "2023-12-31"), ("2023-12-31", "2024-01-02")),
    "percent": (("5%", "50%"), ("5%", "50%")),
    "a quote within": (("a'b", "a`b"), ("a'b", "a`b")),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_are_texts_as_they_stand_in_the_file(tmp_path, case):
    given, sorted_labels = LABELS[case]
    data = opened(tmp_path, texts_with(*given))
    assert data.encoding.labels == sorted_labels
    for item in data.epoch("train", 1, data.steps):
        number = int(data.encoding.decode(item.x[: item.lengths[0], 0]).removeprefix("film "))
        assert data.encoding.name_of(int(item.targets[0])) == given[number % len(given)].strip()


FORMS = {
    "quoted commas": texts_with("a", "b", row='"film, {n}",{label}\n'),
    "quoted line ends": texts_with("a", "b", row='"film\n{n}",{label}\n'),
    "quotes in quotes": texts_with("a", "b", row='"a ""film"" {n}",{label}\n'),
    "a blank before a quote": texts_with("a", "b", row='"film {n}", "{label}"\n'),
    "a carriage return and a line feed": texts_with("a", "b").replace("\n", "\r\n"),
    "a carriage return alone": texts_with("a", "b").replace("\n", "\r"),
    "no line end at the end": texts_with("a", "b").rstrip("\n"),
    "blank lines": texts_with("a", "b", row="film {n},{label}\n\n"),
    "a byte order mark": b"\xef\xbb\xbf" + texts_with("a", "b").encode(),
    "UTF-16, the low byte first": texts_with("a", "b").encode("utf-16"),
    "UTF-16, the high byte first": b"\xfe\xff" + texts_with("a", "b").encode("utf-16-be"),
    "UTF-32": texts_with("a", "b").encode("utf-32"),
    "names in capitals": texts_with("a", "b", header="TEXT,LABEL\n"),
    "blanks around names": texts_with("a", "b", header=" text , label \n"),
    "names in quotes": texts_with("a", "b", header='"text","label"\n'),
    "columns the other way round": texts_with("a", "b", header="label,text\n", row="{label},film {n}\n"),
    "an empty last column without a name": texts_with("a", "b", header="text,label,\n", row="film {n},{label},\n"),
    "a column without a name": texts_with("a", "b", header=",text,label\n", row="{n},film {n},{label}\n"),
    "thousands of columns": texts_with(
        "a", "b", header="text,label," + ",".join(f"c{n}" for n in range(3000)) + "\n",
        row="film {n},{label}," + "," * 2999 + "\n",
    ),
    "a text longer than csv's limit": texts_with("a", "b", row="film {n} " + "w" * 140_000 + ",{label}\n"),
    "without names": texts_with("a", "b", header=""),
    "without names, and labels that are well-known names": texts_with("y", "n", header=""),
    "formulas of spreadsheets": texts_with("a", "b", row="=film({n}),{label}\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
def test_forms_of_files(tmp_path, case):
    data = opened(tmp_path, FORMS[case])
    assert data.encoding.labels in (("a", "b"), ("n", "y"))
    items = [item for split in SPLITS for item in data.epoch(split, 1, data.steps)]
    assert len(items) == ROWS
    assert "film" in data.encoding.decode(data.epoch("train", 1, data.steps)[0].x[:, 0])


NUMBERS = {
    "whole": ("3", 3),
    "signed": ("-3.5", -3.5),
    "powers of ten": ("1e3", 1000),
    "a point first": (".5", 0.5),
    "a point last": ("5.", 5),
    "leading zeros": ("007", 7),
    "blanks around": (" 2 ", 2),
    "in quotes": ('"2"', 2),
    "beside a blank that does not break": ("\u00a02", 2),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_of_steps(tmp_path, case):
    text, value = NUMBERS[case]
    data = opened(tmp_path, steps_with(text))
    assert data.epoch("train", 1, 2)[0].x[:, 0].tolist() == [[value, 0], [value, 1]]


REFUSED = {
    "missing": ("", "line 2, column a: empty"),
    "not a number": ("nan", "line 2, column a: must be finite in float32, got 'nan'"),
    "NA": ("NA", "line 2, column a: 'NA' is no number"),
    "infinite": ("-inf", "line 2, column a: must be finite in float32, got '-inf'"),
    "beyond float32": ("1e39", "line 2, column a: must be finite in float32, got '1e39'"),
    "a comma for a point": ('"1,5"', "line 2, column a: '1,5' is no number"),
    "thousands apart": ('"1,000"', "line 2, column a: '1,000' is no number"),
    "underscores": ("1_000", "line 2, column a: '1_000' is no number"),
    "hexadecimal": ("0x1F", "line 2, column a: '0x1F' is no number"),
    "a unit": ("5 V", "line 2, column a: '5 V' is no number"),
    "truth": ("True", "line 2, column a: 'True' is no number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_numbers_that_are_none(tmp_path, case):
    text, message = REFUSED[case]
    with pytest.raises(DataError, match=message):
        opened(tmp_path, steps_with(text))


MALFORMED = {
    "a label that is missing": (texts_with("a", ""), "line 3, column label: empty"),
    "a text that is missing": (texts_with("a", "b", row=",{label}\n"), "line 2, column text: empty"),
    "an unnamed column of numbers": (
        steps_with("1", header="sequence,a,b,label,\n").replace("u\n", "u,\n").replace("d\n", "d,\n"),
        "line 2, column 5: empty",
    ),
    "a row that is too long": (texts_with("a", "b") + "c,d,e\n", "line 42: 3 fields, expected 2"),
    "a quote that does not end": (texts_with("a", "b") + '"c,d\n', "line 42: unexpected end of data"),
    "semicolons": (texts_with("a", "b").replace(",", ";"), r"which column is the text\?.* there are: 1"),
    "Latin-1": (texts_with("gr\u00fcn", "b").encode("latin-1"), r"byte 20 is not utf-8 \(line 2, byte 10 of it\)"),
    "UTF-16 with half a character": (texts_with("a", "b").encode("utf-16")[:-1], "is not utf-16"),
    "a packed file": (b"\x1f\x8b\x08\0" + bytes(100), "byte 3 is NUL"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_files_that_are_malformed(tmp_path, case):
    content, message = MALFORMED[case]
    with pytest.raises(DataError, match=message):
        opened(tmp_path, content)


def test_there_are_as_many_variants_as_promised():
    assert sum(map(len, (LABELS, FORMS, NUMBERS, REFUSED, MALFORMED))) >= 60


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_the_order_of_classes_is_that_of_every_process(tmp_path, task):
    """Python's hashes differ from process to process, and with them the order of a set."""
    content = "sequence,a,label\n" + "".join(f"{n},{n},{['0', 'nan', '1', 'NaN'][n % 4]}\n" for n in range(ROWS))
    (tmp_path / "t.csv").write_text(content)
    script = (
        "from etalstm.data.own import open_own; from etalstm.data.raw import Reading; from pathlib import Path;"
        f"print(open_own(Path({str(tmp_path / 't.csv')!r}), Reading({task!r})).encoding.labels)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert found == {"('0', '1', 'NaN', 'nan')\n"}


def test_what_is_guessed_of_the_first_line_is_told(tmp_path):
    guess = "line 1 is taken for names of columns; if not: --no-header"
    assert any(guess in note for note in opened(tmp_path, texts_with("a", "b")).notes)
    guess = "no line of names, so columns are 1 to 2; if line 1 has them, give one: --label NAME"
    assert any(guess in note for note in opened(tmp_path, texts_with("a", "b", header="")).notes)


def test_without_a_header_the_first_line_is_a_row(tmp_path):
    """Its label is a well-known name, which stands in no other row."""
    content = "film,label\n" + texts_with("a", "b", header="")
    data = opened(tmp_path, content, no_header=True, text="1", label="2", split_seed=3)
    assert data.encoding.labels == ("a", "b", "label") and not any("column" in note for note in data.notes)


def test_columns_may_be_given_by_number(tmp_path):
    content = texts_with("a", "b", header="id,words,kind\n", row="{n},film {n},{label}\n")
    data = opened(tmp_path, content, text="2", label="kind")
    assert (data.encoding.text, data.encoding.label) == ("words", "kind")
    with pytest.raises(DataError, match="has no column '4'; there are: id, words, kind"):
        opened(tmp_path, content, text="4", label="kind")


def test_another_file_is_read_as_the_first_one(tmp_path):
    """Neither has a line of names, though the first row of the second one has a well-known name."""
    (tmp_path / "v.csv").write_text("dull,y\nfilm,n\n")
    data = opened(tmp_path, texts_with("y", "n", header=""), validation=str(tmp_path / "v.csv"))
    assert len(data.epoch("validation", 1, data.steps)) == 2
    assert len(open_own(tmp_path / "v.csv", Reading("classify"), data.encoding).epoch("test", 1, 4)) == 2
