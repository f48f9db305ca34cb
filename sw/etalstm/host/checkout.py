"""Names the Git commit of the running code."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def commit(root: Path = ROOT) -> str | None:
    """Give the first digits of the commit of a Git checkout, and ``+`` if files have been changed since.

    `root` is the checkout's outermost folder. None if it is no checkout, or Git is not installed.
    """
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel")) != root:  # installed inside somebody else's checkout
            return None
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        return _git(root, "rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(root, *words):
    found = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, encoding="utf-8", errors="replace", check=True
    )
    return found.stdout.strip()
