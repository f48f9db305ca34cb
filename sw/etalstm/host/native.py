"""Compiles a source in C for this processor, once, and gives its functions."""

import ctypes
import platform
import shutil
import subprocess
import warnings
from functools import cache
from pathlib import Path

from etalstm.errors import ToolchainError
from etalstm.host.cached_build import cached_build

COMPILER = "g++"  # which the simulator needs, too
FLAGS = ("-x", "c", "-O3", "-march=native", "-shared", "-fPIC")
_LIBRARY = "library.so"


@cache
def library(source: Path) -> ctypes.CDLL | None:
    """Compile a source and load it; None where there is no compiler, or it fails, or there is no place to keep it.

    A warning says so: what takes its place is slower.
    """
    if shutil.which(COMPILER) is None:
        _warn(source, f"there is no {COMPILER}")
        return None

    def build(folder: Path) -> None:
        command = [COMPILER, *FLAGS, str(source), "-o", str(folder / _LIBRARY)]
        subprocess.run(command, check=True, capture_output=True)

    try:
        folder, _ = cached_build("native", [source.read_text(encoding="utf-8"), *FLAGS, _processor()], build, _version)
        return ctypes.CDLL(str(folder / _LIBRARY))
    except (OSError, ToolchainError, subprocess.CalledProcessError) as error:
        _warn(source, str(error))
        return None


def _warn(source: Path, reason: str) -> None:
    warnings.warn(f"{source.name} was not compiled, loops that are slower take its place: {reason}", stacklevel=3)


def _version() -> str:
    return subprocess.run([COMPILER, "--version"], check=True, capture_output=True, encoding="utf-8").stdout


def _processor() -> str:
    """Name what the compiler may take this processor to be: a cache may serve several computers."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
