"""A run notes which code trained it."""

import shutil
import subprocess

import pytest

from etalstm.host.checkout import commit

AUTHOR = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")


@pytest.fixture
def checkout(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("Git is not installed")
    for words in (["init", "--quiet"], [*AUTHOR, "commit", "--quiet", "--allow-empty", "--message", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    return tmp_path.resolve()


def test_a_checkout_has_a_commit(checkout):
    found = subprocess.check_output(["git", "-C", str(checkout), "rev-parse", "HEAD"], text=True)
    assert len(commit(checkout)) == 10 and found.startswith(commit(checkout))


def test_changed_files_are_told_and_files_beside_them_are_not(checkout):
    clean = commit(checkout)
    (checkout / "file").write_text("one")
    assert commit(checkout) == clean, "Git does not know it"
    subprocess.run(["git", "-C", str(checkout), "add", "file"], check=True)
    assert commit(checkout) == f"{clean}+"


def test_a_folder_inside_another_checkout_has_none(checkout):
    (checkout / "inside").mkdir()
    assert commit(checkout / "inside") is None


def test_without_git_there_is_none(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit(checkout) is None


def test_a_plain_folder_has_none(tmp_path):
    assert commit(tmp_path.resolve()) is None
