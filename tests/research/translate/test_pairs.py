import gzip

import pytest

from etalstm.errors import DataError
from etalstm.research.translate.corpus import TEST, TRAINING, has_split, read_pairs


def write(folder, **files):
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def read(folder, source="de", target="en"):
    return read_pairs(folder, TRAINING, source, target)


def test_lines_make_pairs(tmp_path):
    write(tmp_path, train_de="Ein Hund\r\nEin\u2028Mann\n", train_en="A dog\nA man")
    pairs = read(tmp_path)
    assert pairs.source == ["Ein Hund", "Ein\u2028Mann"] and pairs.target == ["A dog", "A man"]
    assert len(pairs.first(1)) == 1 and len(pairs.first(None)) == 2


def test_packed_files_are_read(tmp_path):
    write(tmp_path, train_en="A dog\n")
    (tmp_path / "train.de.gz").write_bytes(gzip.compress("Ein Hündchen\n".encode()))
    assert read(tmp_path).source == ["Ein Hündchen"]


def test_the_language_may_stand_first(tmp_path):
    (tmp_path / "src-train.txt").write_text("Ein Hund\n")
    (tmp_path / "tgt-train.txt").write_text("A dog\n")
    assert read(tmp_path, "src", "tgt").target == ["A dog"]


def test_a_split_needs_both_languages(tmp_path):
    write(tmp_path, test_de="Ein Hund\n")
    assert not has_split(tmp_path, TEST, "de", "en")
    write(tmp_path, test_en="A dog\n")
    assert has_split(tmp_path, TEST, "de", "en")


@pytest.mark.parametrize(
    ("de", "en", "message"),
    [
        ("a\nb\n", "a\n", r"train.de has 2 lines, .*train.en has 1: they make no pairs"),
        ("", "a\n", r"train.de: empty"),
        ("a\n \nc\n", "a\nb\nc\n", r"train.de, line 2: blank"),
        ("a\n", b"a\nb\xff\n", r"train.en: damaged: byte 3 is not utf-8 \(line 2, byte 2 of it\)"),
        ("a\n", b"a\0\n", r"train.en: no text: byte 1 is NUL"),
    ],
)
def test_what_makes_no_pairs_is_refused(de, en, message, tmp_path):
    write(tmp_path, train_de=de, train_en=en)
    with pytest.raises(DataError, match=message):
        read(tmp_path)


def test_blank_lines_of_a_training_split_are_left_out(tmp_path):
    write(tmp_path, train_de="a\n\nc\nd\n", train_en="a\nb\n \nd\n")
    pairs = read_pairs(tmp_path, TRAINING, "de", "en", leave_blank=True)
    assert (pairs.source, pairs.target, pairs.blank) == (["a", "d"], ["a", "d"], 2)


def test_a_missing_file_is_named(tmp_path):
    write(tmp_path, train_de="a\n")
    with pytest.raises(DataError, match=r"must hold train\.en or train\.en\.gz or en-train\.txt"):
        read(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"no gzip", id="not packed"),
        pytest.param(gzip.compress(b"a\n" * 99)[:-4], id="cut off"),
    ],
)
def test_a_damaged_packed_file_is_refused(content, tmp_path):
    write(tmp_path, train_en="a\n")
    (tmp_path / "train.de.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"train.de.gz: damaged"):
        read(tmp_path)
