"""The package where its files cannot be written, for a user without a home."""

import os
import subprocess
import sys
from pathlib import Path

READ_ONLY = """
import os
access = os.access
os.access = lambda path, mode: False if mode == os.W_OK and "etalstm" in str(path) else access(path, mode)
"""
COMPRESS = """
import numpy as np
from etalstm.formats.codec import decode, encode
from numba.core import config
values = np.arange(100, dtype=np.float32)
assert (decode(encode(values), values.size) == values).all()
print(config.CACHE_DIR)
"""


def test_what_is_compiled_is_kept_in_the_cache_where_the_package_is_read_only(tmp_path):
    environment = {"TMPDIR": str(tmp_path), "HOME": "/nowhere", "PATH": os.environ["PATH"]}
    environment |= {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    kept = []
    for _ in range(2):
        command = [sys.executable, "-c", READ_ONLY + COMPRESS]
        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr
        kept.append({path: path.stat().st_mtime_ns for path in Path(found.stdout.strip()).rglob("*.nbc")})
    assert kept[0] and kept[0] == kept[1], "what was compiled is not used again"
    assert all(tmp_path / f"eta-lstm-{os.geteuid()}" in path.parents for path in kept[0])
