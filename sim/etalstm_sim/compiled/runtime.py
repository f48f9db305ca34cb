"""Compiles Verilator's own library, which every model calls, once. For a small model that is a third of the work."""

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from etalstm_sim.compiled.toolchain import compiled_build, run_tool

COMPILATION = re.compile(r"^\S+ .*\s-c\s.*", re.M)  # a compiler's command line, as make prints it


def compilations(make: Sequence[str], directory: Path) -> list[str]:
    """Give the compiler's command lines that a make command would run in a folder.

    Raises
    ------
    ToolchainError
        If make fails.
    """
    return COMPILATION.findall(run_tool([*make, "--dry-run"], directory))


def place_runtime(make: Sequence[str], directory: Path, objects: Path):
    """Put the objects of Verilator's library where a make command looks for them, so that it does not compile them.

    Parameters
    ----------
    make : strings
        The command. It builds a model that Verilator has translated.
    directory : Path
        Where it will run.
    objects : Path
        Where it keeps its objects.

    Raises
    ------
    ToolchainError
        If make or the compiler fails, or the cache cannot be written.
    """
    for line in compilations(make, directory):
        command = shlex.split(line)
        source = Path(command[-1])
        if source.is_absolute() and source.name.startswith("verilated"):
            shutil.copy(_compiled(command, source), objects)


def _compiled(command, source):
    """Give the object that a compiler's command line makes of a source of Verilator's library."""
    name = command[command.index("-o") + 1]
    root = str(source.parent.parent)
    key = [word.replace(root, "VERILATOR_ROOT") for word in command]
    return compiled_build("runtime", key, lambda directory: run_tool(command, directory))[0] / name
