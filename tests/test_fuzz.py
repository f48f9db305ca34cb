"""Files from elsewhere are read, or refused with an error of this program; nothing else happens."""

import copy
import json
from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from etalstm.data.own import open_own
from etalstm.data.raw import Reading
from etalstm.errors import EtaLstmError
from etalstm.formats.codec import encode
from etalstm.formats.sealed_stream import Encoding, StreamHeader, seal, unseal
from etalstm.train.checkpoint import Checkpoint
from etalstm.train.sealed import digest
from tests.fuzzing import FUZZ
from tests.fuzzing import little_memory as little_memory
from tests.train.test_checkpoint import example

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WORDS = encode(np.where(np.arange(100) % 3, np.arange(100), 0).astype(np.float32), beat_words=8)
HEADER = StreamHeader(9, 1, 4, 5, 1, 0, 2, Encoding.FLOAT32, 8, 100, 66, WORDS.size)
ROWS = "".join(f"{'fine' if n % 3 else 'dull'} film {n % 7},{'pos' if n % 3 else 'neg'}\n" for n in range(60))


def places(value, place=()):
    """Every place in a JSON value."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*place, key))


@FUZZ
@given(st.data())
def test_a_forged_description_of_a_checkpoint(tmp_path, data):
    description = {**example().description.model_dump(), "format": Checkpoint.FORMAT}
    whole = {"": json.loads(json.dumps(description, default=str))}
    *way, last = data.draw(st.sampled_from([place for place in places(whole) if place]))
    forged = copy.deepcopy(whole)
    inner = forged
    for key in way:
        inner = inner[key]
    inner[last] = data.draw(JSON)
    description, tensors = forged[""], example().tensors
    if isinstance(description, dict):
        description["sha256"] = digest(description, tensors)
    path = tmp_path / "c.safetensors"
    path.write_bytes(save(tensors, {Checkpoint.KEY: json.dumps(description)}))
    with suppress(EtaLstmError):
        Checkpoint.read(path)


@FUZZ
@given(st.sampled_from([f.name for f in fields(StreamHeader)]), st.integers(0, 255), st.data())
def test_a_forged_header_of_a_stream(name, value, data):
    value = data.draw(st.sampled_from([value, value << 8, value << 24]))
    words = WORDS.copy()
    if data.draw(st.booleans()):
        words[data.draw(st.integers(0, words.size - 1))] = data.draw(st.integers(0, 0xFFFFFFFF))
    try:
        forged = seal(replace(HEADER, **{name: value}), words)
    except Exception:
        return  # the field is narrower: no stream has that
    with suppress(EtaLstmError):
        unseal(forged, 9)


@FUZZ
@given(
    st.integers(0, len(ROWS)), st.integers(0, len(ROWS)), st.binary(max_size=12), st.sampled_from(["classify", "tag"])
)
def test_a_damaged_file_of_a_user(tmp_path, first, last, put, task):
    content = ROWS.encode()
    path = tmp_path / "r.csv"
    path.write_bytes(content[: min(first, last)] + put + content[max(first, last) :])
    with suppress(EtaLstmError):
        open_own(path, Reading(task))
