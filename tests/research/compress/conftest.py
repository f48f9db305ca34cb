"""Tests of what needs PyTorch are there only where PyTorch is: ``make test-torch`` installs it."""

import importlib
import importlib.util

import pytest

from etalstm.research.profile import Profile, model_digest
from etalstm_hw.config import preset

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
TEXT = "the cat saw a dog and the dog saw a cat near the old house in the wood"


@pytest.fixture
def text(tmp_path):
    """Write a small text as PTB's files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for split, lines in (("train", 15), ("valid", 8), ("test", 8)):
        words = TEXT.split()
        sentences = [" ".join(words[line % 5 : 6 + line * 7 % 12]) for line in range(lines)]
        (folder / f"ptb.{split}.txt").write_text("".join(f" {sentence} \n" for sentence in sentences))
    return folder


@pytest.fixture
def make_profile():
    """Give a function that makes a profile whose points are given, of sizes up to 16."""

    def make(points, **changed):
        latencies = {size: min(point for point in points if point >= size) for size in range(1, max(points) + 1)}
        members = {
            "machine": "test", "preset_digest": preset("test").digest, "model_digest": model_digest(),
            "dimension": "hidden", "inputs": None, "hidden": None, "batch": 4, "steps": 5, "storage": "dense",
            "forward": False, "unit": "cycles", "tolerance": 0.0, "latencies": latencies,
        }  # fmt: skip
        return Profile(**members | changed)

    return make


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of small operations wait for each other far longer than they work, where other programs run too."""
    torch = importlib.import_module("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
