"""AN4: what a damaged archive is told, how utterances are split, normalised, stacked and put into batches."""

import re

import numpy as np
import pytest

from etalstm.data.an4 import An4
from etalstm.data.speech import CLASSES, collapsed, edit_distance, labels_of, steps_needed
from etalstm.errors import DataError
from tests.data.an4_files import TEXTS, contents, features, write_an4

ONE = "feat/an4_clstk/fa/an0-fa-b.mfc"
IDS, LINES = "etc/an4_train.fileids", "etc/an4_train.transcription"


def with_lines(name, change):
    """Give an archive's members, the lines of one of them changed."""
    return {name: "".join(f"{line}\n" for line in change(contents()[name].decode().splitlines())).encode()}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({ONE: contents()[ONE][:-4]}, f"{ONE}: must be a count and so many float32, got a count of 195, 780 bytes"),
        ({ONE: b"\0\0"}, f"{ONE}: must be a count and so many float32, got a count of 0, 2 bytes"),
        ({ONE: b"\xff" * 8}, "got a count of -1, 8 bytes"),
        ({ONE: features(np.zeros(14))}, f"{ONE}: must hold frames of 13 numbers, at least 1, got 14 numbers"),
        ({ONE: features([])}, "at least 1, got 0 numbers"),
        ({ONE: features(np.full((9, 13), np.nan))}, f"{ONE}: coefficient 0 of frame 0 is nan"),
        ({ONE: features(np.zeros((2, 13)))}, f"{ONE}: 2 steps of 1 frames are too few for 3 characters, which need 3"),
        ({ONE: None}, f"an4/{ONE} is missing"),
        ({IDS: None}, f"an4/{IDS} is missing"),
        ({IDS: b"\n"}, f"{IDS}: empty"),
        ({IDS: b"an0-fa-b\n"}, f"{IDS}, line 1: expected folder/speaker/name, got 'an0-fa-b'"),
        (with_lines(IDS, lambda lines: [*lines, lines[0]]), "an0-fa-b has no transcription, or is there twice"),
        (with_lines(IDS, lambda lines: lines[1:]), f"{LINES}: an0-fa-b is not among the file ids"),
        (with_lines(LINES, lambda lines: lines[1:]), f"{IDS}, line 1: an0-fa-b has no transcription"),
        (with_lines(LINES, lambda lines: [*lines, lines[0]]), "an0-fa-b has a transcription already"),
        (with_lines(LINES, lambda lines: ["(an0-fa-b)"]), f"{LINES}, line 1: expected a text and (name)"),
        (with_lines(LINES, lambda lines: ["YES! (an0-fa-b)"]), "line 1: characters must be capital letters and spaces"),
        ({LINES: b"\xff\n"}, f"{LINES}: damaged: byte 0 is not utf-8"),
        (
            {IDS: b"f/fa/an0-fa-b\n", LINES: b"NO (an0-fa-b)\n", "feat/f/fa/an0-fa-b.mfc": features(np.zeros((9, 13)))},
            "1 training speakers are too few",
        ),
    ],
)
def test_what_is_wrong_is_named_with_the_archive(members, message, tmp_path):
    write_an4(tmp_path, members)
    with pytest.raises(DataError, match=re.escape(message)) as found:
        An4(tmp_path)
    assert str(found.value).startswith(f"{tmp_path}/an4_mfcc13.tar.xz: ")


def test_a_missing_or_cut_archive_is_named(tmp_path):
    with pytest.raises(DataError, match=r"an4_mfcc13\.tar\.xz: cannot be read"):
        An4(tmp_path)
    path = write_an4(tmp_path) / "an4_mfcc13.tar.xz"
    path.write_bytes(path.read_bytes()[:999])
    with pytest.raises(DataError, match=r"an4_mfcc13\.tar\.xz: damaged"):
        An4(tmp_path)


def test_validation_has_speakers_of_its_own(tmp_path):
    data = An4(write_an4(tmp_path))
    assert [data.size(split) for split in ("train", "validation", "test")] == [16, 4, 4]


def test_the_training_split_is_normalised_and_frames_are_stacked(tmp_path):
    write_an4(tmp_path)
    single = An4(tmp_path).evaluation("train", 100)[0]
    real = np.arange(len(single.x))[:, None] < single.lengths
    assert np.allclose(single.x[real].mean(0), 0, atol=1e-6) and np.allclose(single.x[real].std(0), 1, atol=1e-5)
    data = An4(tmp_path, stack=4)
    stacked = data.evaluation("train", 100)[0]
    assert data.input_size == 52 and np.array_equal(stacked.lengths, -(-single.lengths // 4))
    longest = single.x[: single.lengths[0], 0]
    assert np.array_equal(stacked.x[:, 0].ravel()[: longest.size], longest.ravel())
    assert not stacked.x[:, 0].ravel()[longest.size :].any(), "what fills the last step is the mean"
    assert data.fingerprint == An4(tmp_path).fingerprint


def test_batches_have_the_longest_first_and_every_utterance_once(tmp_path):
    data = An4(write_an4(tmp_path))
    known = [labels_of(text).tolist() for text in TEXTS]
    for batch in [*data.evaluation("train", 3), *data.training(5, np.random.default_rng(0))]:
        assert (np.diff(batch.lengths) <= 0).all() and (batch.lengths == 6 + 3 * batch.label_lengths).all()
        labels = np.split(batch.labels, np.cumsum(batch.label_lengths))
        assert all(one.tolist() in known for one in labels[:-1]) and not labels[-1].size
    assert [len(batch.lengths) for batch in data.evaluation("train", 3)] == [3, 3, 3, 3, 3, 1]
    epochs = [data.training(5, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert [len(batch.lengths) for batch in epochs[0]] == [5, 5, 5]
    labels = [[batch.labels.tolist() for batch in epoch] for epoch in epochs]
    assert labels[0] == labels[1] != labels[2]
    with pytest.raises(ValueError, match="batch must be at most 16, the utterances in train, got 17"):
        data.training(17, np.random.default_rng(0))


def test_a_stack_that_leaves_too_few_steps_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"mfc: . steps of 7 frames are too few for . characters"):
        An4(write_an4(tmp_path), stack=7)


def test_labels_and_paths():
    assert labels_of(" AZ").tolist() == [1, 2, 27] and CLASSES == 28
    assert collapsed(np.array([0, 3, 3, 0, 3, 5, 5, 0])).tolist() == [3, 3, 5]
    assert collapsed(np.array([3, 0, 0])).tolist() == [3] and collapsed(np.zeros(2, int)).size == 0
    assert steps_needed(labels_of("BALL")) == 5


@pytest.mark.parametrize(
    ("found", "expected", "distance"),
    [("KITTEN", "SITTING", 3), ("", "ABC", 3), ("ABC", "", 3), ("AB", "AB", 0), ("BA", "AB", 2), ("AXBYC", "ABC", 2)],
)
def test_edit_distance(found, expected, distance):
    assert edit_distance(labels_of(found), labels_of(expected)) == distance
