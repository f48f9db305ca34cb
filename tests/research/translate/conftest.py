"""Tests of what needs PyTorch are there only where PyTorch is: ``make test-torch`` installs it."""

import importlib
import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
NOUNS = {"hund": "dog", "mann": "man", "ball": "ball", "frau": "woman"}
VERBS = {"sieht": "sees", "sucht": "seeks"}


@pytest.fixture
def corpus(tmp_path):
    """Write a small corpus: each German sentence has one translation, word by word."""
    pairs = [
        (f"Ein {one} {verb} einen {other} .", f"A {NOUNS[one]} {VERBS[verb]} a {NOUNS[other]} .")
        for one in NOUNS
        for verb in VERBS
        for other in NOUNS
    ]
    pairs += [(f"Ein {one} .", f"A {NOUNS[one]} .") for one in NOUNS]
    folder = tmp_path / "data"
    folder.mkdir()
    for split, part in (("train", pairs), ("val", pairs[::5]), ("test", pairs[1::7])):
        for number, language in enumerate(("de", "en")):
            (folder / f"{split}.{language}").write_text("".join(pair[number] + "\n" for pair in part))
    return folder


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of small operations wait for each other far longer than they work, where other programs run too."""
    torch = importlib.import_module("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
