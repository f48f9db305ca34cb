"""Folders of finished files with their digests: what is damaged later is noticed before it is used."""

import hashlib
import json
from pathlib import Path

from etalstm.host.durable import sync

SEAL = "sha256.json"


def seal(directory: Path) -> None:
    """Note the digest of every file in a folder, and have all of them on the disk."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    digests = {str(path.relative_to(directory)): _digest(path) for path in files}
    (directory / SEAL).write_text(json.dumps(digests, indent=1))
    for path in (*files, directory / SEAL, directory):
        sync(path)


def is_sealed(directory: Path) -> bool:
    """Say whether every file that a folder was sealed with is there as it was; files that came later do not count."""
    try:
        digests = json.loads((directory / SEAL).read_text())
        return all(_digest(directory / name) == digest for name, digest in digests.items())
    except (OSError, ValueError, AttributeError):
        return False


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
