"""Runs Vivado on a prepared build: here, in a container, or on another machine."""

import io
import os
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from amaranth.build.run import BuildPlan

from etalstm.errors import BuildError
from etalstm_boards.tcl import MINIMUM_VIVADO

_DOCKER_FAILED = 125  # exit code of `docker run` if docker itself failed, not the container
_SSH_FAILED = 255  # exit code of `ssh` if ssh itself failed, not the command on the other machine


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
        output = subprocess.run(
            [program, "-version"], capture_output=True, encoding="utf-8", errors="replace", check=False
        ).stdout
    except OSError as error:
        raise BuildError(f"{program} does not run: {error.strerror}") from None
    match = re.search(r"[Vv]ivado v(\d+)\.(\d+)", output)
    if match is None:
        raise BuildError(f"{program} does not say which version of Vivado it is")
    if tuple(map(int, match.groups())) < MINIMUM_VIVADO:
        raise BuildError(f"Vivado {wanted} or later is needed, {program} is {match[1]}.{match[2]}")
    return program


def run_here(plan: BuildPlan, directory: Path, vivado: Path, results: Sequence[str]) -> None:
    """Write a build's files and run Vivado on them.

    Parameters
    ----------
    plan : BuildPlan
    directory : Path
        For the files and the results.
    vivado : Path
        The program.
    results : sequence of str
        Files that Vivado writes; those of an earlier run are removed. The first one must exist at the end.

    Raises
    ------
    BuildError
        If Vivado fails, or ends without the first result; its log is in the directory.
    """
    _remove(directory, results)
    with _failures(directory):
        plan.execute_local(directory, env=os.environ | {"VIVADO": str(vivado)})
    _require(directory, results)


def run_in_container(plan: BuildPlan, directory: Path, image: str, results: Sequence[str]) -> None:
    """Like :func:`run_here`, in a Docker container of an image that has ``vivado`` on its PATH."""
    if shutil.which("docker") is None:
        raise BuildError("no docker on PATH")
    _remove(directory, results)
    with _failures(directory, {_DOCKER_FAILED: f"docker cannot run the image {image!r}; it says why above"}):
        plan.execute_local_docker(image, root=directory)
    _require(directory, results)


def run_remotely(plan: BuildPlan, directory: Path, host: str, results: Sequence[str]) -> None:
    """Like :func:`run_here`, on another machine by ``ssh``; its files are copied back, also if it fails.

    Parameters
    ----------
    plan, results
        See :func:`run_here`.
    directory : Path
        Here, for the files and the results.
    host : str
        ``[user@]host[:folder]``, the host as ``ssh`` knows it; the default folder is ``eta-lstm-build`` where the user
        logs in.
    """
    if shutil.which("ssh") is None:
        raise BuildError("no ssh on PATH")
    match = re.fullmatch(r"((?:[^@:-][^@:]*@)?[^@:-][^@:]*)(?::(.+))?", host)
    if match is None:
        raise BuildError(f"--ssh must be [user@]host[:folder], got {host!r}")
    target, folder = match[1], (match[2] or "eta-lstm-build").removeprefix("~/")
    enter, names = f"cd {shlex.quote(folder)}", shlex.join(results)
    _remove(directory, results)
    plan.extract(directory)

    def run(command: str, **options) -> subprocess.CompletedProcess:
        finished = subprocess.run(["ssh", target, command], check=False, **options)
        if finished.returncode == _SSH_FAILED:
            raise BuildError(f"the connection to {target} failed or was lost; ssh says why above")
        return finished

    written = run(f"mkdir -p {shlex.quote(folder)} && {enter} && rm -f {names} && tar -xf -", input=_archive(plan))
    if written.returncode:
        raise BuildError(f"cannot write to the folder {folder} on {target}; it says why above")
    profile = "if [ -f ~/.profile ]; then . ~/.profile; fi"  # where users add Vivado to PATH
    code = run(f"{profile}; {enter} && sh {plan.script}.sh").returncode
    fetched = run(f"{enter} && tar -cf - $(ls -d {names} 2>/dev/null)", stdout=subprocess.PIPE).stdout
    _unpack(fetched, directory, results)
    if code:
        raise BuildError(f"Vivado failed with exit code {code} on {target}; see the log in {directory}")
    _require(directory, results)


def _archive(plan: BuildPlan) -> bytes:
    """Pack a build's files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in plan.files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _unpack(archive: bytes, directory: Path, names: Sequence[str]) -> None:
    """Write those files of an archive that are expected; an empty archive has no byte."""
    if archive:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            for entry in files:
                content = files.extractfile(entry) if entry.isfile() and entry.name in names else None
                if content is not None:
                    (directory / entry.name).write_bytes(content.read())


def _remove(directory: Path, results: Sequence[str]) -> None:
    for name in results:
        (directory / name).unlink(missing_ok=True)


def _require(directory: Path, results: Sequence[str]) -> None:
    if not (directory / results[0]).is_file():
        raise BuildError(f"Vivado ended without a {results[0]}; see the log in {directory}")


@contextmanager
def _failures(directory: Path, meanings: Mapping[int, str] = MappingProxyType({})):
    """Turn a tool's exit code into an error with its meaning, or with the place of Vivado's log."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        otherwise = f"Vivado failed with exit code {error.returncode}; see the log in {directory}"
        raise BuildError(meanings.get(error.returncode, otherwise)) from None
