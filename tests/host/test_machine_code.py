"""The package where its files cannot be written, for a user without a home."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import etalstm.golden
from etalstm.cli.devices import open_named
from etalstm.host import machine_code
from etalstm.host.machine_code import is_kept

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


def test_what_is_kept_is_found_beside_the_modules_and_in_the_cache(tmp_path, monkeypatch):
    package = ModuleType("package")
    package.__path__ = [str(tmp_path / "package")]
    loops = tmp_path / "package" / "fast" / "loops.py"
    loops.parent.mkdir(parents=True)
    loops.write_text("")
    for place in ("package/fast/__pycache__", "cache/fast_0123"):
        assert not is_kept(package)
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "others.run-12.py311.1.nbc").write_text("")
        (tmp_path / place / "others.run-12.py311.nbi").write_text("")
        assert not is_kept(package)
        (tmp_path / place / "loops.run-12.py311.nbi").write_text("")
        (tmp_path / place / "loops.run-12.py311.1.nbc").write_text("")
        assert is_kept(package)
        monkeypatch.setitem(vars(machine_code.numba_config), "CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("waits", [True, False])
def test_a_user_at_a_terminal_is_told_what_takes_long(monkeypatch, capsys, waits):
    monkeypatch.setattr(machine_code, "is_kept", lambda package: package is not etalstm.golden)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: waits, raising=False)
    open_named("golden", "test").close()
    told = "compiling the loops of etalstm.golden, once for this installation: about a minute of one processor\n"
    assert capsys.readouterr().err == (told if waits else "")
