"""Runs Vivado on a prepared build: here, in a container, or on another machine."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

from amaranth.build.run import BuildPlan

from etalstm.boards.tcl import MINIMUM_VIVADO
from etalstm.errors import BuildError


def find_vivado(path: Path | None = None) -> Path:
    """Find Vivado and check its version.

    Parameters
    ----------
    path : Path, optional
        The program, or the folder where it is installed; default: on PATH.

    Raises
    ------
    BuildError
        If there is none, it does not run, or it is older than :data:`MINIMUM_VIVADO`.
    """
    wanted = ".".join(map(str, MINIMUM_VIVADO))
    if path is None:
        found = shutil.which("vivado")
        if found is None:
            raise BuildError(
                f"no vivado on PATH; source its settings64.sh, or use --vivado, --docker or --ssh ({wanted} or later)"
            )
        program = Path(found)
    else:
        program = path / "bin" / "vivado" if path.is_dir() else path
        if not program.is_file():
            raise BuildError(f"there is no Vivado at {program}")
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise BuildError(f"{program} does not run: {error.strerror}") from None
    match = re.search(r"[Vv]ivado v(\d+)\.(\d+)", output)
    if match is None:
        raise BuildError(f"{program} does not say which version of Vivado it is")
    if tuple(map(int, match.groups())) < MINIMUM_VIVADO:
        raise BuildError(f"Vivado {wanted} or later is needed, {program} is {match[1]}.{match[2]}")
    return program


def run_here(plan: BuildPlan, directory: Path, vivado: Path) -> None:
    """Write a build's files and run Vivado on them.

    Raises
    ------
    BuildError
        If Vivado fails; its log is in the directory.
    """
    with _failures(directory):
        plan.execute_local(directory, env=os.environ | {"VIVADO": str(vivado)})


def run_in_container(plan: BuildPlan, directory: Path, image: str) -> None:
    """Like :func:`run_here`, in a Docker container of an image that has ``vivado`` on its PATH."""
    if shutil.which("docker") is None:
        raise BuildError("no docker on PATH")
    with _failures(directory):
        plan.execute_local_docker(image, root=directory)


def run_remotely(plan: BuildPlan, directory: Path, host: str, results: Sequence[str]) -> None:
    """Like :func:`run_here`, on another machine, and copy its results here.

    Parameters
    ----------
    plan : BuildPlan
    directory : Path
        Here, for the files and the results.
    host : str
        ``[user@]host[:directory]``; the default directory is ``eta-lstm-build`` where the user logs in.
    results : sequence of str
        Files to copy back; the first must be there, else the build has failed.
    """
    if importlib.util.find_spec("paramiko") is None:
        raise BuildError("--ssh needs the package paramiko. Try: pip install 'etalstm[ssh]'")
    match = re.fullmatch(r"(?:([^@:]+)@)?([^@:]+)(?::(.+))?", host)
    if match is None:
        raise BuildError(f"--ssh must be [user@]host[:directory], got {host!r}")
    user, name, remote = match.groups()
    connect_to = {"hostname": name} | ({"username": user} if user else {})
    plan.extract(directory)
    try:
        products = plan.execute_remote_ssh(connect_to=connect_to, root=remote or "eta-lstm-build")
        for number, result in enumerate(results):
            try:
                (directory / result).write_bytes(products.get(result))
            except FileNotFoundError:
                if number == 0:
                    raise BuildError(f"Vivado failed on {name}: there is no {result} there") from None
    except OSError as error:
        raise BuildError(f"cannot build on {name}: {error}") from None


@contextmanager
def _failures(directory: Path):
    """Turn a tool's exit code into an error that says where its log is."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        raise BuildError(f"Vivado failed with exit code {error.returncode}; see the log in {directory}") from None
