"""Tests of what needs PyTorch are there only where PyTorch is: ``make test-torch`` installs it."""

import importlib
import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of small operations wait for each other far longer than they work, where other programs run too."""
    torch = importlib.import_module("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
