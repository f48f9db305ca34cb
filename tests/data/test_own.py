"""A user's files are read as they are meant, or refused with line and column."""

import os

import numpy as np
import pytest

from etalstm.data import SPLITS, Encoding, Sequences, files
from etalstm.data.arrays import read_inputs
from etalstm.data.own import open_own
from etalstm.data.raw import Reading
from etalstm.data.sequences import Example
from etalstm.errors import DataError

REVIEWS = "".join(f"{'fine' if n % 3 else 'dull'} film number {n},{'pos' if n % 3 else 'neg'}\n" for n in range(60))
TAGGED = "".join(f"the\tD\ndog\tN\n{'runs' if n % 2 else 'eats'}\tV\n\n" for n in range(30)) + "now\tA\n"
STEPS = "".join(f"{n},{t},{n + t / 8},{'up' if n % 2 else 'down'}\n" for n in range(20) for t in range(1 + n % 4))


def opened(tmp_path, name, content, task, encoding=None, **chosen):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_own(path, Reading(task, **chosen), encoding)


def members(data, split):
    """Inputs and targets of a split, one at a time, padding left out."""
    for item in data.epoch(split, 1, data.steps):
        yield item.x[: item.lengths[0], 0], item.targets[: item.lengths[0], 0] if data.per_step else item.targets[0]


def texts(data, split):
    return [(data.encoding.decode(x), data.encoding.name_of(int(target))) for x, target in members(data, split)]


def test_texts_with_labels_are_told_apart_by_the_names_of_their_columns(tmp_path):
    data = opened(tmp_path, "r.csv", "id,review,stars,class\n" + "".join(
        f"{n},\"film, {n % 5}\nor\",5,{'ab'[n % 2]}\n" for n in range(40)), "classify")  # fmt: skip
    assert data.encoding.labels == ("a", "b") and data.input_size is None
    assert "text is column review, label is column class" in data.notes[0]
    assert texts(data, "train")[0][0].split()[0] == "film,", "a quoted comma is no delimiter, a quoted line end no row"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_columns_without_names_the_label_is_the_one_with_fewer_values(tmp_path, order):
    rows = [line.split(",") for line in REVIEWS.splitlines()]
    content = "".join("\t".join(row[n] for n in order) + "\n" for row in rows)
    data = opened(tmp_path, "r.tsv", content, "classify")
    assert data.encoding.labels == ("neg", "pos")
    assert f"label is column {order.index(1) + 1}" in data.notes[0]


def test_a_column_that_is_named_is_no_longer_guessed(tmp_path):
    short = "".join(f"{'ab'[n % 2]},word {n % 3}\n" for n in range(40))
    data = opened(tmp_path, "r.csv", "review,class\n" + short, "classify", text="class", label="review")
    assert "column" not in " ".join(data.notes), "nothing was guessed"
    assert data.encoding.labels == ("a", "b")
    assert opened(tmp_path, "s.csv", "review,other\n" + short, "classify", label="review").encoding.labels == ("a", "b")


def test_of_long_sequences_the_first_steps_are_used(tmp_path):
    content = "text,label\n" + "".join(f"{'word ' * (300 * (n == 7) + 1)},{'ab'[n % 2]}\n" for n in range(40))
    data = opened(tmp_path, "r.csv", content, "classify")
    assert data.steps == 256 and "of a sequence the first 256 steps are used, or --steps" in data.notes


def test_splits_hold_every_example_once_and_each_class_alike(tmp_path):
    data = opened(tmp_path, "r.csv", REVIEWS, "classify", tokens="characters")
    found = [pair for split in SPLITS for pair in texts(data, split)]
    assert len(found) == len(set(found)) == 60
    for split, share in zip(SPLITS, (0.8, 0.1, 0.1), strict=True):
        labels = [label for _, label in texts(data, split)]
        assert (labels.count("pos"), labels.count("neg")) == (40 * share, 20 * share), split


def test_rare_classes_are_divided_too_and_none_is_without_training(tmp_path):
    content = "".join(f"a text of class {n % 33},c{n % 33}\n" for n in range(100))
    data = opened(tmp_path, "r.csv", "text,label\n" + content, "classify")
    sizes = [len(list(members(data, split))) for split in SPLITS]
    assert sizes == [80, 10, 10] and len({label for _, label in texts(data, "train")}) == 33
    assert len({label for _, label in texts(data, "test")}) == 10


def test_splits_are_the_seeds(tmp_path):
    first, again, other = (opened(tmp_path, "r.csv", REVIEWS, "classify", split_seed=seed) for seed in (0, 0, 1))
    assert texts(first, "test") == texts(again, "test") != texts(other, "test")
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_splits_may_be_files(tmp_path):
    (tmp_path / "v.csv").write_text("fine fine,pos\n")
    (tmp_path / "t.csv").write_text("dull dull,neg\nfine unheard,pos\n")
    files_of = {"validation": str(tmp_path / "v.csv"), "test": str(tmp_path / "t.csv")}
    data = opened(tmp_path, "r.csv", REVIEWS, "classify", **files_of)
    assert len(list(members(data, "train"))) == 60
    assert texts(data, "validation") == [("fine fine", "pos")]
    assert texts(data, "test") == [("dull dull", "neg"), ("fine <unk>", "pos")]
    assert "test: 1 of 4 words are not in the vocabulary, so <unk>" in data.notes


def test_the_vocabulary_is_the_most_frequent_words_of_the_training(tmp_path):
    data = opened(tmp_path, "r.csv", REVIEWS.replace("fine", "FINE"), "classify", lower=True, vocabulary=4)
    assert data.encoding.tokens == ("<unk>", "film", "fine", "number") and data.tokens == 4


@pytest.mark.parametrize(("tokens", "count"), [("bytes", 256), ("characters", 6), ("words", 3)])
def test_plain_text_is_cut_into_what_is_asked_for(tmp_path, tokens, count):
    text = "ab \u00e9a\n" * 400
    data = opened(tmp_path, "t.txt", text, "language", tokens=tokens)
    assert data.classes == data.tokens == count and data.stateful and data.per_step
    item = data.epoch("train", 1, 6)[0]
    decoded = data.encoding.decode(item.x[:, 0])
    assert decoded == {"words": "ab éa ab éa ab éa", "characters": "ab éa\n", "bytes": "ab éa"}[tokens][: len(decoded)]
    sizes = [sum(int(item.weights.sum()) for item in data.epoch(split, 1, 6)) for split in SPLITS]
    assert sizes[0] == pytest.approx(8 * sizes[1], rel=0.1) and sizes[1] == sizes[2]


def test_tagged_words_are_sequences_between_blank_lines(tmp_path):
    data = opened(tmp_path, "t.tsv", TAGGED, "tag")
    x, tags = next(members(data, "train"))
    assert data.encoding.decode(x).startswith("the dog") and len(x) == 3
    assert data.encoding.labels == ("A", "D", "N", "V") and tags.tolist() == [1, 2, 3]
    item = data.epoch("train", 2, 5)[0]
    assert item.weights[:3].all() and not item.weights[3:].any(), "padding has no share in the loss"


def test_numbers_are_sequences_by_their_column(tmp_path):
    data = opened(tmp_path, "n.csv", "sequence,a,b,label\n" + STEPS, "classify")
    assert data.input_size == 2 and data.encoding.labels == ("down", "up") and data.masked
    for x, target in members(data, "train"):
        number = int(x[0, 1])
        assert len(x) == 1 + number % 4 and target == number % 2
        assert x[:, 0].tolist() == list(range(len(x)))


def test_numbers_may_be_answered_by_numbers(tmp_path):
    content = "sequence,a,y\n" + "".join(f"{n},{t},{n / 2}\n" for n in range(20) for t in range(2))
    data = opened(tmp_path, "n.csv", content, "regress")
    item = data.epoch("train", 4, 2)[0]
    assert data.classes == 1 and item.targets.shape == (4, 1) and item.targets.dtype == np.float32


def test_arrays_are_taken_as_they_are(tmp_path):
    x, y, lengths = np.random.default_rng(0).normal(size=(30, 5, 3)), np.arange(30) % 3, 1 + np.arange(30) % 5
    np.savez(tmp_path / "a.npz", x=x, y=y, lengths=lengths)
    data = open_own(tmp_path / "a.npz", Reading("classify"))
    assert data.encoding.labels == ("0", "1", "2") and data.input_size == 3
    for found, target in members(data, "test"):
        number = next(n for n in range(30) if np.allclose(x[n, 0], found[0]))
        assert target == y[number] and len(found) == lengths[number]


@pytest.mark.parametrize(
    "change",
    [np.asfortranarray, lambda x: x.astype(">f4"), lambda x: x.astype(np.longdouble), lambda x: x[:, ::-1][:, ::-1]],
)
def test_arrays_lie_in_any_order_and_have_any_bytes(tmp_path, change):
    x, y = np.random.default_rng(0).normal(size=(30, 5, 3)).astype(np.float32), (np.arange(30) % 3).astype(">i2")
    np.savez(tmp_path / "a.npz", x=change(x), y=y)
    inputs = [item.x[:, 0] for split in SPLITS for item in open_own(
        tmp_path / "a.npz", Reading("classify")).epoch(split, 1, 5)]  # fmt: skip
    assert sorted(found.tobytes() for found in inputs) == sorted(one.tobytes() for one in x)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([(np.zeros((5, 2), np.float32), np.zeros(1, int))], r"x, \(5, 2\), must have shape \(5,\), got \(1,\)"),
        ([(np.zeros((5, 2), np.float32), np.full(5, 2))], r"answers must be 0 to 1, got \[2, 2, 2, 2, 2\]"),
        ([(np.zeros((5, 3), np.float32), np.zeros(5, int))], r"x must be steps of shape \(2,\), got \(5, 3\)"),
    ],
)
def test_examples_agree_with_each_other(examples, message):
    first = Example(np.zeros((4, 2), np.float32), np.zeros(4, int))
    with pytest.raises(DataError, match=f"mine: sequence 1 of train: .*{message}"):
        Sequences("mine", "tag", {"train": [first, *(Example(*one) for one in examples)]}, 2)


@pytest.mark.parametrize(
    ("name", "content", "task", "message"),
    [
        ("r.csv", "text,label\na,b\na,b,c\n", "classify", r"r\.csv, line 3: 3 fields, expected 2"),
        ("r.csv", "text,label\na b,x\nc,\n", "classify", r"line 3, column label: empty"),
        ("r.csv", "text,label\n" + "a b,x\n" * 20, "classify", r"r\.csv: all of the training is of one class, 'x'"),
        ("r.csv", 'text,label\n"a,x\n', "classify", r"r\.csv, line 2: unexpected end of data"),
        ("r.csv", b"text,label\na,x\nb\xffc,y\n", "classify", r"byte 16 is not utf-8 \(line 3, byte 2 of it\)"),
        ("r.csv", b"text,label\na\0,x\n", "classify", r"byte 12 is NUL \(line 2, byte 2 of it\)"),
        ("r.csv", "", "classify", r"r\.csv: empty"),
        ("r.csv", "text,label\n", "classify", r"r\.csv: has no rows below its line of names"),
        ("r.csv", "a,b,c\nd,e,f\n", "classify", r"which column is the text\? Name it: --text COLUMN; .*: 1, 2, 3"),
        ("r.csv", "text,label\na,x\nb,y\n", "classify", r"r\.csv: 2 examples leave none for validation"),
        ("r.txt", "a b\n", "classify", r"the ending must be \.csv, \.tsv or \.npz, got '\.txt'"),
        ("r.csv", "text,label\na,1\nb,two\n", "regress", r"line 3, column label: 'two' is no number"),
        ("r.csv", "text,label\na,1\nb,inf\n", "regress", r"line 3, column label: .* float32, got 'inf'"),
        (
            "r.csv",
            "text,label\na,1\nb,1e40\n",
            "regress",
            r"line 3, column label: .* float32, got '1e40'",
        ),
        ("r.csv", "text,Text\na,1\nb,2\n", "classify", r"r\.csv, line 1: two columns have the name 'Text'"),
        ("n.csv", "sequence,a,label\n1,2,x\n1,?,x\n", "classify", r"line 3, column a: '\?' is no number"),
        ("n.csv", "sequence,a,b\n1,2,x\n", "classify", r"which column is the label\? .*: sequence, a, b"),
        ("n.csv", "sequence,label\n1,x\n", "classify", r"no column of numbers beside sequence and label"),
        ("a.npz", b"PK no", "classify", r"a\.npz: no file of arrays"),
    ],
)
def test_what_a_file_should_not_hold_is_named_with_its_place(tmp_path, name, content, task, message):
    with pytest.raises(DataError, match=message):
        opened(tmp_path, name, content, task)


@pytest.mark.parametrize(
    ("arrays", "task", "message"),
    [
        ({"x": np.zeros((4, 3, 2))}, "classify", "has no array y"),
        ({"x": np.zeros((4, 3, 2)), "y": np.zeros(3, int)}, "classify", "x has 4 sequences, y 3"),
        ({"x": np.zeros((4, 3)), "y": np.zeros(4, int)}, "classify", "sequence 0: x must have 2 dimensions"),
        (
            {"x": np.full((4, 3, 2), np.nan), "y": np.zeros(4, int)},
            "classify",
            "sequence 0: x must be finite",
        ),
        ({"x": np.full((4, 3, 2), 1e40), "y": np.zeros(4, int)}, "classify", r"finite in float32, got 1e\+40"),
        ({"x": np.zeros((0, 3, 2)), "y": np.zeros(0, int)}, "classify", "there is no sequence in x"),
        ({"x": np.array(5.0), "y": np.zeros(4, int)}, "classify", r"x must be sequences of steps, .* shape \(\)"),
        ({"x": np.zeros((4, 3, 2)), "y": np.array(5)}, "classify", "y must be an answer for each sequence, got 5"),
        ({"x": np.zeros((4, 3, 2)), "y": np.zeros(4)}, "classify", "y must be integers for the task classify"),
        ({"x": np.zeros((4, 3, 2)), "y": np.zeros(4, int), "lengths": np.full(4, 9)}, "classify", "1 to 3, got 9"),
        (
            {"x": np.zeros((4, 3, 2)), "y": np.zeros(4, int), "lengths": np.full(4, 2.7)},
            "classify",
            "4 integers",
        ),
        (
            {"x": np.zeros((2, 3, 2)), "y": np.zeros(2, int), "lengths": np.ones((2, 1), int)},
            "tag",
            "got shape",
        ),
        ({"x": np.array([None]), "y": np.zeros(1, int)}, "classify", "no file of arrays: .*allow_pickle"),
        ({"x": np.zeros((4, 3, 2)), "y": np.zeros((4, 1), int)}, "classify", r"y must have 0 dimensions, .* \(1,\)"),
        ({"x": np.zeros((4, 3, 2)), "y": np.zeros((4, 1), int)}, "tag", r"x has shape \(3, 2\) .* shape \(1,\)"),
        ({"x": np.zeros((4, 3, 2)), "y": np.zeros((4, 2), int)}, "tag", r"x has shape \(3, 2\) .* shape \(2,\)"),
        ({"x": np.zeros((4, 3, 2)), "y": np.zeros((4, 4), int)}, "tag", r"x has shape \(3, 2\) .* shape \(4,\)"),
        ({"x": np.zeros((4, 3, 2)), "y": np.zeros((4, 1, 2))}, "regress", "y must have 1 dimensions"),
        ({"x": np.zeros((4, 3), np.uint64) + 2**63, "y": np.zeros(4, int)}, "classify", r"must be below 2\^63"),
        ({"x": np.zeros((4, 3, 2), complex), "y": np.zeros(4, int)}, "classify", "x must be numbers, got complex128"),
        ({"x": np.zeros((4, 3, 2), bool), "y": np.zeros(4, int)}, "classify", "x must be numbers, got bool"),
        ({"x": np.zeros((4, 3, 2), "U1"), "y": np.zeros(4, int)}, "classify", "x must be numbers, got <U1"),
        ({"x": np.zeros((4, 3, 2), [("a", float)]), "y": np.zeros(4, int)}, "classify", "x must be numbers, got "),
    ],
)
def test_arrays_of_other_shapes_are_refused(tmp_path, arrays, task, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=rf"a\.npz: .*{message}"):
        open_own(tmp_path / "a.npz", Reading(task))


def test_a_class_that_only_another_split_has_is_named_with_its_line(tmp_path):
    (tmp_path / "t.csv").write_text("fine,pos\n\ndull,middling\n")
    with pytest.raises(DataError, match=r"t\.csv, line 3: no example of the class 'middling' is in the training"):
        opened(tmp_path, "r.csv", REVIEWS, "classify", test=str(tmp_path / "t.csv"))


def test_other_files_are_read_by_the_same_columns(tmp_path):
    """The labels of the second file are as many as its texts, so its columns could not be guessed."""
    (tmp_path / "t.csv").write_text("dull,neg\n")
    data = opened(tmp_path, "r.csv", REVIEWS, "classify", test=str(tmp_path / "t.csv"))
    assert texts(data, "test") == [("dull", "neg")]
    again = open_own(tmp_path / "t.csv", Reading("classify"), data.encoding)
    assert texts(again, "test") == [("dull", "neg")] and again.encoding == data.encoding


@pytest.mark.parametrize(
    ("x", "lengths", "message"),
    [
        (np.zeros((2, 3, 2)), [2, 9], "sequence 1: its length must be 1 to 3, got 9"),
        (np.zeros((2, 3, 2)), [-1, 2], "sequence 0: its length must be 1 to 3, got -1"),
        (np.zeros((2, 3, 2)), [2], r"lengths must be 2 integers, got shape \(1,\)"),
        (np.zeros((2, 3, 2)), [2.0, 1.0], "lengths must be 2 integers, .* float64"),
        (np.array(5.0), [1], r"x must be sequences of steps, got an array of shape \(\)"),
    ],
)
def test_arrays_to_answer_are_checked_like_those_to_learn(tmp_path, x, lengths, message):
    np.savez(tmp_path / "a.npz", x=x, lengths=np.array(lengths))
    with pytest.raises(DataError, match=rf"a\.npz: {message}"):
        read_inputs(tmp_path / "a.npz", Encoding())


def test_tags_belong_to_words(tmp_path):
    with pytest.raises(ValueError, match="tokens must be words for the task tag, got 'characters'"):
        opened(tmp_path, "t.tsv", TAGGED, "tag", tokens="characters")


def test_a_text_that_is_answered_as_a_whole_has_no_other_split(tmp_path):
    encoding = opened(tmp_path, "t.txt", "ab" * 200, "language").encoding
    data = opened(tmp_path, "t.txt", "ab" * 200, "language", encoding)
    with pytest.raises(ValueError, match="there is no text in validation"):
        data.epoch("validation", 1, 4)


SWAPPED = "".join(f"{n + t / 8},{n},{'up' if n % 2 else 'down'},{t}\n" for n in range(20) for t in range(1 + n % 4))


def test_vectors_go_by_the_names_of_their_columns(tmp_path):
    (tmp_path / "v.csv").write_text("b,sequence,label,a\n" + SWAPPED)
    data = opened(tmp_path, "n.csv", "sequence,a,b,label\n" + STEPS, "classify", validation=str(tmp_path / "v.csv"))
    assert data.encoding.vector == ("a", "b")
    again = open_own(tmp_path / "v.csv", Reading("classify"), data.encoding)
    for found in (members(data, "validation"), members(again, "test"), ((x, 0) for x in
                  read_inputs(tmp_path / "v.csv", data.encoding))):  # fmt: skip
        assert [x[:, 0].tolist() for x, _ in found] == [list(range(1 + n % 4)) for n in range(20)]
    (tmp_path / "v.csv").write_text("sequence,b,label\n0,1,up\n")
    with pytest.raises(DataError, match="has no column 'a'; there are: sequence, b, label"):
        read_inputs(tmp_path / "v.csv", data.encoding)


def test_a_column_that_is_not_there_is_named_with_those_there_are(tmp_path):
    with pytest.raises(DataError, match=r"has no column 'rating'; there are: text, label"):
        opened(tmp_path, "r.csv", "text,label\na,b\n", "classify", label="rating")


def test_what_is_no_file_or_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "f.csv")
    with pytest.raises(DataError, match=r"f\.csv: must be a regular file"):
        open_own(tmp_path / "f.csv", Reading("classify"))
    with pytest.raises(DataError, match="No such file"):
        open_own(tmp_path / "none.csv", Reading("classify"))
    with open(tmp_path / "large.txt", "wb") as file:
        file.truncate(files.LARGEST_BYTES + 1)
    with pytest.raises(DataError, match=r"large\.txt: has 536,870,913 bytes, at most 536,870,912 are read"):
        open_own(tmp_path / "large.txt", Reading("language"))
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((40, 5, 5)), y=np.zeros(40, int))
    monkeypatch.setattr("etalstm.data.arrays.LARGEST_BYTES", 5000)
    with pytest.raises(DataError, match=r"a\.npz: its arrays have .* bytes, at most 5,000 are read"):
        open_own(tmp_path / "a.npz", Reading("classify"))
