"""Files of a user's own: their examples, and the split of each."""

import zlib
from pathlib import Path

import numpy as np

from etalstm.data.arrays import ARRAYS, read_arrays
from etalstm.data.dataset import CLASSIFY, LANGUAGE, REGRESS, SPLITS, DataSet
from etalstm.data.encoding import UNKNOWN, Encoding, split
from etalstm.data.files import read_text
from etalstm.data.raw import Columns, Raw, Reading, read_table
from etalstm.data.sequences import MOST_STEPS, Sequences
from etalstm.data.streams import TokenStreams
from etalstm.data.tables import DELIMITERS
from etalstm.errors import DataError

OWN = "own file"
STREAM_STEPS = 64  # of a language's batches


def open_own(path: Path, reading: Reading, encoding: Encoding | None = None) -> DataSet:
    """Read a user's file: for ``language`` a text, else a table (``.csv``, ``.tsv``) or arrays (``.npz``).

    With the encoding of a trained network, the whole file is the test split. Raises :class:`DataError` if the file
    cannot be read or is malformed; the message says the line and the column.
    """
    return (_language if reading.task == LANGUAGE else _examples)(path, reading, encoding)


def read_raw(path: Path, reading: Reading) -> Raw:
    """Read the examples of a table or of arrays."""
    kind = path.suffix.lower()
    if kind not in (*DELIMITERS, ARRAYS):
        expected = f"{', '.join(DELIMITERS)} or {ARRAYS}"
        raise DataError(f"{path}: for the task {reading.task} the ending must be {expected}, got {path.suffix!r}")
    return read_arrays(path, reading.task) if kind == ARRAYS else read_table(path, reading)


def _examples(path: Path, reading: Reading, encoding: Encoding | None) -> Sequences:
    if encoding is not None:
        reading = reading.by(Columns(encoding.text, encoding.label, encoding.sequence, encoding.vector))
    raws = {"test": read_raw(path, reading)}
    if encoding is None:
        alike = reading.by(raws["test"].columns)
        raws = _divided(raws["test"], reading)
        raws |= {name: read_raw(Path(file), alike) for name, file in reading.files.items()}
        encoding = raws["train"].learn(reading)
    splits = {name: raw.examples(encoding, reading.task) for name, raw in raws.items()}
    combined = [example for examples in splits.values() for example in examples]
    classes = np.size(combined[0].target) if reading.task == REGRESS else len(encoding.labels)
    tokens = encoding.count
    if not tokens and combined[0].x.ndim == 1:
        tokens = int(max(example.x.max() for example in combined)) + 1
    found = Sequences(OWN, reading.task, splits, classes, tokens, encoding)
    sizes = ", ".join(f"{len(examples)} for {name}" for name, examples in splits.items())
    lengths = [len(example.x) for example in combined]
    inputs = {name: [example.x for example in examples] for name, examples in splits.items()}
    found.notes = [
        *dict.fromkeys(note for raw in raws.values() for note in raw.notes),
        f"sequences: {sizes}; of {min(lengths)} to {max(lengths)} steps",
        *([f"of a sequence the first {MOST_STEPS} steps are used, or --steps"] if max(lengths) > MOST_STEPS else []),
        *_unknown_notes(inputs, encoding),
    ]
    return found


def _divided(raw: Raw, reading: Reading) -> dict[str, Raw]:
    """Divide examples at random, every class by the same shares; one example of each class is always for training."""
    generator = np.random.Generator(np.random.PCG64(reading.split_seed))
    classes: dict[object, list[int]] = {}
    for number, target in enumerate(raw.targets):
        classes.setdefault(target if reading.task == CLASSIFY else None, []).append(number)
    orders = [generator.permutation(members) for members in classes.values()]
    firsts, order = [members[0] for members in orders], np.concatenate([members[1:] for members in orders])
    chosen = {}
    for name, share in reading.shares.items():
        count = round(share * len(raw.targets))
        if not 0 < count <= order.size:
            raise DataError(f"{raw.path}: {len(raw.targets)} examples leave none for {name}")
        # Classes lie one after the other, so even strides take the same share of each.
        picks = ((np.arange(count) + 0.5) * order.size / count).astype(np.int64)
        chosen[name], order = order[picks], np.delete(order, picks)
    chosen["train"] = np.concatenate([firsts, order])
    return {name: raw.take(np.sort(chosen[name]).tolist()) for name in SPLITS if name in chosen}


def _unknown_notes(splits: dict[str, list[np.ndarray]], encoding: Encoding) -> list[str]:
    """Give a note for each split that has tokens outside the vocabulary: their number."""
    if encoding.unknown is None:
        return []
    notes = []
    for name, arrays in splits.items():
        count, total = sum(int((x == encoding.unknown).sum()) for x in arrays), sum(len(x) for x in arrays)
        if count:
            notes.append(f"{name}: {count:,} of {total:,} {encoding.unit} are not in the vocabulary, so {UNKNOWN}")
    return notes


class OwnText(TokenStreams):
    """A text of the user, for the task ``language``."""

    name = OWN
    steps = STREAM_STEPS

    def __init__(self, splits: dict[str, np.ndarray], encoding: Encoding):
        super().__init__(splits)
        self.unit, self.encoding, self.classes = encoding.unit or "tokens", encoding, encoding.count
        summary = zlib.crc32(encoding.json.encode())
        for name, tokens in splits.items():
            summary = zlib.crc32(name.encode() + tokens.tobytes(), summary)
        self.fingerprint = summary


def _language(path: Path, reading: Reading, encoding: Encoding | None) -> OwnText:
    def cut(file: Path):
        return split(read_text(file), reading.unit, reading.lower)

    texts = {"test": cut(path)}
    if encoding is None:
        texts = _consecutive(texts["test"], reading.shares)
        texts |= {name: cut(Path(file)) for name, file in reading.files.items()}
        encoding = Encoding.learn([texts["train"]], reading.unit, reading.lower, reading.vocabulary)
    tokens = {name: encoding.number(text) for name, text in texts.items()}
    found = OwnText(tokens, encoding)
    sizes = ", ".join(f"{len(numbers):,} for {name}" for name, numbers in tokens.items())
    unknown = _unknown_notes({name: [numbers] for name, numbers in tokens.items()}, encoding)
    found.notes = [f"{encoding.unit}: {sizes}; {encoding.count:,} different", *unknown]
    return found


def _consecutive(tokens, shares: dict[str, float]) -> dict:
    """Cut a text into the training split and those of some shares, one after the other."""
    start = len(tokens) - sum(round(share * len(tokens)) for share in shares.values())
    splits = {"train": tokens[:start]}
    for name, share in shares.items():
        end = start + round(share * len(tokens))
        splits[name], start = tokens[start:end], end
    return splits
