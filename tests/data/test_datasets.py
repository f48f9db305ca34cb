"""Data sets give whole batches, deterministic splits and honest weights."""

import io
import json
import lzma
import os
import tarfile

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.data import DATASETS, SPLITS, open_dataset
from etalstm.data.dataset import REGRESS
from etalstm.data.trajectories import TEST, TRAIN
from etalstm.errors import DataError
from etalstm.train import load


def write_ptb(directory, sentences=1200):
    for split, share in (("train", 1.0), ("valid", 0.3), ("test", 0.4)):
        lines = [f" the {n % 7} cats saw <unk> {n % 3} \n" for n in range(int(sentences * share))]
        (directory / f"ptb.{split}.txt").write_text("".join(lines))


def write_trec(directory, questions=600):
    for name, count in (("train_5500", questions), ("TREC_10", questions // 5)):
        lines = [f"{KINDS[n % 6]}:x What caf\xe9 {'is ' * (n % 23)}{n % 11} ?\n" for n in range(count)]
        (directory / f"{name}.label").write_bytes("".join(lines).encode("latin-1"))


def write_mr(directory, sentences=400):
    for file, verdict in (("neg", "dull"), ("pos", "caf\xe9\x85")):
        lines = [f"a {verdict} film no {n % 9} {'very ' * (n % 60)}long \n" for n in range(sentences)]
        (directory / f"rt-polarity.{file}").write_bytes("".join(lines).encode("latin-1"))


def write_imdb(directory, reviews=400):
    for split in ("train", "test"):
        lines = [
            f"{('neg', 'pos')[n % 2]}\t{n}\t7\tIt's {'so ' * (n % 300)}good!<br />Or {n % 5}?\n" for n in range(reviews)
        ]
        (directory / f"imdb_{split}_small.tsv.xz").write_bytes(lzma.compress("".join(lines).encode()))


STORY = "1 Mary went to the {0}.\n2 Where is Mary? \t{0}\t1\n3 John left.\n4 Where was she? \t{0},hall\t1 3\n"


def write_babi(directory, tasks=20, story=STORY):
    with tarfile.open(directory / BABI, "w:xz") as archive:
        for task in range(1, tasks + 1):
            for split in ("train", "test"):
                content = "".join(story.format(("garden", "office")[n % 2]) for n in range(20)).encode()
                member = tarfile.TarInfo(f"tasks_1-20_v1-2/en/qa{task}_where-is_{split}.txt")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def write_ethucy(directory, pedestrians=12):
    """Everybody walks, faster the larger their number; in each recording the first pauses after 30 steps."""
    for number, name in enumerate((*TRAIN, TEST)):
        rows = [
            (10 * step + 100 * (pedestrian == 0 and step >= 30), f"{pedestrian}.0", 0.1 * pedestrian * step, number)
            for step in range(40)
            for pedestrian in range(pedestrians)
        ]
        (directory / f"{name}.txt").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))


def pipe(path):
    path.unlink()
    os.mkfifo(path)


BABI = "babi_en_tasks_1-20_v1-2.tar.xz"
KINDS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
FILES = {
    "babi": write_babi,
    "ethucy": write_ethucy,
    "imdb": write_imdb,
    "mr": write_mr,
    "ptb": write_ptb,
    "trec": write_trec,
}


@pytest.fixture(scope="module", params=sorted(DATASETS))
def dataset(request, tmp_path_factory):
    if request.param not in FILES:
        return open_dataset(request.param)
    directory = tmp_path_factory.mktemp(request.param)
    FILES[request.param](directory)
    return open_dataset(request.param, directory)


def shuffled(dataset, split, batch, seed=1):
    return dataset.epoch(split, batch, dataset.steps, np.random.Generator(np.random.PCG64(seed)))


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"'mnist'.*babi, digits, ethucy, imdb, mr, ptb, pydoc, trec"):
        open_dataset("mnist")


def test_unknown_split_lists_the_known(dataset):
    with pytest.raises(ValueError, match=r"'dev'.*validation"):
        dataset.epoch("dev", 4, dataset.steps)


@pytest.mark.parametrize("batch", [1, 7, 32])
def test_every_batch_has_the_sizes_of_the_device(dataset, batch):
    for split in SPLITS:
        for item in [*shuffled(dataset, split, batch)[-2:], *dataset.epoch(split, batch, dataset.steps)[-2:]]:
            assert item.x.shape[:2] == (dataset.steps, batch)
            expected = (dataset.steps, batch) if dataset.per_step else (batch,)
            assert item.weights.shape == expected
            if dataset.task == REGRESS:
                assert item.targets.shape == (batch, dataset.classes)
            else:
                assert item.targets.shape == expected
                assert item.targets.min() >= 0 and item.targets.max() < dataset.classes
            assert ((item.lengths >= 1) & (item.lengths <= dataset.steps)).all()


def test_evaluation_counts_every_example_once(dataset):
    total = sum(item.weights.sum() for item in dataset.epoch("test", 32, dataset.steps))
    one = sum(item.weights.sum() for item in dataset.epoch("test", 1, dataset.steps))
    assert 0 <= one - total < 32 and (dataset.per_step or one == total)


def test_training_has_no_filling(dataset):
    assert all(item.weights.all() for item in shuffled(dataset, "train", 32))


def test_equal_generators_give_equal_epochs(dataset):
    for first, again in zip(shuffled(dataset, "train", 32), shuffled(dataset, "train", 32), strict=True):
        assert np.array_equal(first.x, again.x) and np.array_equal(first.targets, again.targets)


def test_too_large_a_batch_is_refused(dataset):
    with pytest.raises(ValueError, match="batch"):
        shuffled(dataset, "train", 10**6)


def test_digits_are_split_by_class_without_overlap():
    digits = open_dataset("digits")
    seen = {}
    for split, share in zip(SPLITS, (0.7, 0.1, 0.2), strict=True):
        batches = digits.epoch(split, 1, 8)
        counts = np.bincount([int(item.targets[0]) for item in batches], minlength=10)
        assert np.abs(counts - share * 179.7).max() < 6, split
        for item in batches:
            seen.setdefault(item.x.tobytes(), set()).add(split)
    assert sum(counts for counts in map(len, seen.values())) == len(seen) == 1797


def test_digits_show_one_row_a_step_from_0_to_1():
    first = open_dataset("digits").epoch("train", 4, 8)[0]
    assert first.x.dtype == np.float32 and first.x.min() == 0.0 and first.x.max() == 1.0
    with pytest.raises(ValueError, match="steps must be 8 for digits"):
        open_dataset("digits").epoch("train", 4, 9)


def test_digits_come_in_another_order_every_epoch():
    digits = open_dataset("digits")
    assert not np.array_equal(shuffled(digits, "train", 32, 1)[0].targets, shuffled(digits, "train", 32, 2)[0].targets)


def test_pydoc_rows_are_contiguous_text_across_batches():
    pydoc = open_dataset("pydoc")
    batches = pydoc.epoch("train", 4, 20)[:5]
    stream = np.concatenate([item.x[:, 2] for item in batches])
    following = np.concatenate([item.targets[:, 2] for item in batches])
    assert np.array_equal(stream[1:], following[:-1])
    text = "".join(pydoc.vocabulary[n] for n in stream)
    assert len(text) == 100 and " " in text


def test_pydoc_splits_follow_each_other():
    pydoc = open_dataset("pydoc")
    sizes = [sum(int(item.weights.sum()) for item in pydoc.epoch(split, 1, 1000)) for split in SPLITS]
    assert sizes[0] > 6 * sizes[1] and sizes[2] > 1.9 * sizes[1]


def test_trec_batches_hold_questions_of_similar_length(tmp_path):
    write_trec(tmp_path, 3000)
    trec = open_dataset("trec", tmp_path)
    batches = shuffled(trec, "train", 32)
    assert np.mean([np.ptp(item.lengths) for item in batches]) < 3
    assert max(item.lengths.max() for item in batches) == trec.steps == 18
    for item in batches[:5]:
        padded = np.arange(18)[:, None] >= item.lengths
        assert not item.x[padded].any() and item.x.max() < trec.tokens


def test_trec_words_are_known_by_the_training_split_alone(tmp_path):
    (tmp_path / "train_5500.label").write_text("HUM:ind Who is Ann ?\nLOC:city Where is WHO ?\n" * 5 + "NUM:x Once ?\n")
    (tmp_path / "TREC_10.label").write_text("NUM:count how many is who ?\n")
    trec = open_dataset("trec", tmp_path)
    assert trec.vocabulary == [None, "?", "ann", "is", "where", "who"] and trec.tokens == 6 and trec.classes == 6
    item = trec.epoch("test", 2, 4)[0]
    assert item.x.T.tolist() == [[0, 0, 3, 5], [0, 0, 0, 0]] and item.lengths.tolist() == [4, 1]
    assert item.targets[0] == 5 and item.weights.tolist() == [1, 0]
    sizes = [sum(int(item.weights.sum()) for item in trec.epoch(split, 1, 4)) for split in SPLITS]
    assert sizes == [10, 1, 1]


def words_of(dataset, item, number=0):
    return dataset.encoding.decode(item.x[: item.lengths[number], number])


def test_mr_has_as_many_of_either_class_in_every_split(tmp_path):
    write_mr(tmp_path)
    mr = open_dataset("mr", tmp_path)
    for split, count in zip(SPLITS, (320, 40, 40), strict=True):
        targets = [int(item.targets[0]) for item in mr.epoch(split, 1, mr.steps)]
        assert targets == [0] * count + [1] * count
    liked = mr.epoch("train", 1, mr.steps)[-1]
    assert words_of(mr, liked).startswith("a caf\xe9 film no "), "a line ends at a newline, not at U+0085"


def test_imdb_keeps_the_end_of_a_review(tmp_path):
    write_imdb(tmp_path)
    imdb = open_dataset("imdb", tmp_path)
    long = imdb.epoch("test", 1, imdb.steps)[299]
    assert long.lengths[0] == imdb.steps == 256 and long.targets[0] == 1
    assert words_of(imdb, long).endswith("so good ! or 4 ?")
    assert words_of(imdb, imdb.epoch("test", 1, imdb.steps)[0]) == "it's good ! or 0 ?"
    (tmp_path / "imdb_test.tsv").write_text("neg\t0\t1\tgood\n")
    assert len(open_dataset("imdb", tmp_path).epoch("test", 1, 4)) == 1, "the plain table goes before the small one"


def test_babi_asks_after_the_story_so_far(tmp_path):
    write_babi(tmp_path)
    babi = open_dataset("babi", tmp_path)
    assert babi.encoding.labels == ("<unk>", "garden", "garden,hall", "office", "office,hall")
    first, second, third = babi.epoch("test", 1, babi.steps)[:3]
    assert words_of(babi, first) == "mary went to the garden where is mary ?"
    assert words_of(babi, second) == "mary went to the garden john left where was she ?"
    assert words_of(babi, third) == "mary went to the office where is mary ?"
    assert [int(item.targets[0]) for item in (first, second, third)] == [1, 2, 3]


def test_paths_are_seen_from_the_last_known_position(tmp_path):
    write_ethucy(tmp_path)
    data = open_dataset("ethucy", tmp_path)
    windows = data.epoch("test", 1, 8)
    assert len(windows) == 11 + 11 * 21, "a path of 30 steps, then one of 10, and eleven of 40"
    last = windows[-1]
    assert np.allclose(last.x[:, 0], [[1.1 * (step - 7), 0, 1.1 * (step > 0), 0] for step in range(8)], atol=1e-5)
    assert np.allclose(last.targets[0].reshape(12, 2), [[1.1 * step, 0] for step in range(1, 13)], atol=1e-5)
    assert data.notes == ["going straight on at the last pace: ade 0.000, fde 0.000 m on the test split"]


def test_displacement_is_measured_in_the_plane(tmp_path):
    write_ethucy(tmp_path)
    targets = np.zeros((2, 24), np.float32)
    outputs = np.stack([np.tile([3, 4], 12), np.repeat([0, 1], [22, 2])]).astype(np.float32)
    found = open_dataset("ethucy", tmp_path).measures(outputs, targets)
    assert np.allclose(found["ade"], [5, 2**0.5 / 12]) and np.allclose(found["fde"], [5, 2**0.5])


def test_a_run_on_paths_is_judged_by_displacement(tmp_path):
    write_ethucy(tmp_path)
    sizes = ["--hidden", "4", "--batch", "64", "--epochs", "1", "--data", str(tmp_path)]
    assert run(["train", "--dataset", "ethucy", *sizes, "--out", str(tmp_path / "run")]) == 0
    entry = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert entry["kind"] == "test" and 0 < entry["ade"] < entry["fde"]
    with load(tmp_path / "run") as model:
        found = model.evaluate(open_dataset("ethucy", tmp_path))
    assert {name: entry[name] for name in found} == found and {"rmse", "ade", "fde"} < found.keys()


def test_ptb_is_a_stream_of_words_with_ends_of_sentences(tmp_path):
    write_ptb(tmp_path)
    ptb = open_dataset("ptb", tmp_path)
    assert ptb.steps == 35 and ptb.classes == len(ptb.vocabulary) == 12
    words = [ptb.vocabulary[n] for item in ptb.epoch("validation", 1, 35) for n in item.x[:, 0]]
    assert words[:8] == ["the", "0", "cats", "saw", "<unk>", "0", "<eos>", "the"]


def test_a_text_can_be_cut(tmp_path):
    write_ptb(tmp_path)
    whole = open_dataset("ptb", tmp_path)
    cut = whole.first({"train": 31, "validation": None})
    assert np.array_equal(cut.epoch("train", 2, 5)[0].x, whole.first({"train": 31}).epoch("train", 2, 5)[0].x)
    assert sum(item.weights.sum() for item in cut.epoch("train", 2, 5)) == 30
    assert len(cut.epoch("validation", 2, 5)) == len(whole.epoch("validation", 2, 5))
    assert sum(item.weights.sum() for item in whole.epoch("train", 2, 5)) > 30, "the whole text is as it was"
    with pytest.raises(ValueError, match="tokens of train must be above 0, got 0"):
        whole.first({"train": 0})


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("trec", lambda d: (d / "TREC_10.label").unlink(), r"TREC_10\.label: missing"),
        ("trec", lambda d: (d / "TREC_10.label").write_text("\n"), r"TREC_10\.label: empty"),
        ("trec", lambda d: (d / "TREC_10.label").write_text("HUM:x who ?\nWHAT:y ?\n"), "line 2: expected KIND:detail"),
        ("trec", lambda d: (d / "TREC_10.label").write_text("HUM:x\n"), "line 1: expected KIND:detail"),
        ("trec", lambda d: pipe(d / "TREC_10.label"), r"TREC_10\.label: must be a regular file"),
        ("ethucy", lambda d: (d / f"{TEST}.txt").write_text("0\t1\t2\n"), "crowds_zara01.txt, line 1: expected frame"),
        ("ethucy", lambda d: (d / f"{TEST}.txt").write_text("0\t1\tnan\t2\n"), "line 1: expected frame, pedestrian"),
        ("mr", lambda d: (d / "rt-polarity.pos").write_text("a film\n\nb\n"), r"\.pos, line 2: expected a sentence"),
        ("imdb", lambda d: (d / "imdb_train_small.tsv.xz").unlink(), "must hold imdb_train.tsv or imdb_train.tsv.xz"),
        ("imdb", lambda d: (d / "imdb_test.tsv.xz").write_bytes(b"neg"), r"imdb_test\.tsv\.xz: damaged"),
        ("imdb", lambda d: (d / "imdb_test.tsv").write_text("good\t1\t2\tx\n"), "line 1: expected neg or pos, number"),
        ("babi", lambda d: write_babi(d, tasks=19), "has no questions of task 20 for train"),
        ("babi", lambda d: write_babi(d, story="1 Why?\tso\t\n"), "qa1_where-is_train.txt, line 1: expected a number"),
        ("babi", lambda d: write_imdb(d) or os.replace(d / "imdb_test_small.tsv.xz", d / BABI), "damaged"),
        ("ptb", lambda d: (d / "ptb.test.txt").write_bytes(b"the\n\0"), r"byte 4 is NUL \(line 2, byte 1 of it\)"),
        ("ptb", lambda d: (d / "ptb.valid.txt").unlink(), r"ptb\.valid\.txt: missing"),
        ("ptb", lambda d: (d / "ptb.test.txt").write_bytes(b"the \xff"), "byte 4 is not utf-8"),
        ("ptb", lambda d: (d / "ptb.train.txt").write_text("the\n"), "is no word of ptb.train.txt"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, damage, message):
    FILES[name](tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError, match=message):
        open_dataset(name, tmp_path)


def test_directories_are_asked_for_where_they_are_needed(tmp_path):
    with pytest.raises(ValueError, match="trec needs the directory of its files: --data DIR"):
        open_dataset("trec")
    with pytest.raises(ValueError, match="digits comes with its data"):
        open_dataset("digits", tmp_path)
    with pytest.raises(DataError, match="no such directory"):
        open_dataset("ptb", tmp_path / "none")
