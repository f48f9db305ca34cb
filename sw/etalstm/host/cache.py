"""The folder for files that can be made again: builds of the simulator, and what was measured on this machine."""

import os
from pathlib import Path


def cache_path() -> Path:
    """Give ``$ETALSTM_CACHE``, else ``eta-lstm`` in the XDG cache directory. The folder need not be there."""
    chosen = os.environ.get("ETALSTM_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(base) / "eta-lstm"
