"""Compiles Verilog, and C++ that drives it, into a shared library, once, and reports progress."""

import json
import resource
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from etalstm_sim.compiled.runtime import COMPILATION, compilations, place_runtime
from etalstm_sim.compiled.toolchain import COMPILER_LIMIT, WAIVER_FLAGS, compiled_build, make_command, run_tool

LIBRARY, COST = "library.so", "build.json"
_FLAGS = ("-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert")
_JOBS = 2
_REPORT_SECONDS = 2.0


def cached_library(
    kind: str,
    top: str,
    texts: Mapping[str, str],
    *,
    modules: Mapping[str, Sequence[str]] | None = None,
    flags: Sequence[str] = (),
    compile_flags: str = "",
    optimise: Sequence[str] = ("OPT_FAST=-O3",),
    log: Callable[[str], None] = lambda _: None,
) -> tuple[Path, bool]:
    """Verilate a design into a shared library, unless the cache has it.

    Parameters
    ----------
    kind : str
        Folder of the cache.
    top : str
        The outermost module; its C++ class is ``V<top>``.
    texts : mapping of file names to their contents
        Verilog and C++ sources and headers.
    modules : mapping of modules to names of their files among `texts`
        Modules that get a class ``V<module>`` of their own. The other sources include its header ``V<module>.h``.
    flags : for Verilator
    compile_flags : for the C++ compiler
    optimise : for make
    log : function
        Told what is being done, at most every two seconds: ``compiling 12 of 40 files``.

    Returns
    -------
    path, built : Path, bool
        The library, and whether it was built now. Beside it lie its sources, and :data:`COST` with the ``seconds``
        that the build took, and the ``cpu_seconds``.

    Raises
    ------
    ToolchainError
        If a tool is missing or fails; the message shows the log's end.
    """
    modules = dict(modules or {})
    command = ["verilator", "--cc", *_FLAGS, *WAIVER_FLAGS, *flags]
    compile_flags = f"-fPIC {COMPILER_LIMIT} {compile_flags}"
    commands = {module: [*_verilate(command, module, compile_flags), *files] for module, files in modules.items()}
    includes = " ".join(["-I..", *(f"-I../{module}" for module in modules)])
    archives = [f"../{module}/{_archive(module)}" for module in modules]
    taken = {name for files in modules.values() for name in files}
    sources = [name for name in texts if name not in taken and not name.endswith(".h")]
    commands[top] = [
        *_verilate(command, top, f"{includes} {compile_flags}"),
        *("--exe", "-LDFLAGS", "-shared", "-o", LIBRARY, *sources, *archives),
    ]

    def build(directory: Path):
        start, cpu_start = time.monotonic(), _children_cpu_seconds()
        for file_name, text in texts.items():
            (directory / file_name).write_text(text, encoding="utf-8")
        _build(directory, commands, {top: LIBRARY}, optimise, log)
        (directory / top / LIBRARY).rename(directory / LIBRARY)
        for module in commands:
            shutil.rmtree(directory / module)
        cost = {"seconds": time.monotonic() - start, "cpu_seconds": _children_cpu_seconds() - cpu_start}
        (directory / COST).write_text(json.dumps(cost), encoding="utf-8")

    command_words = [word for words in commands.values() for word in words]
    key = [*(f"{file_name}\n{text}" for file_name, text in texts.items()), *command_words, *optimise]
    directory, built = compiled_build(kind, key, build)
    return directory / LIBRARY, built


def _verilate(command, module, compile_flags):
    """Give Verilator's command for a module, whose C++ goes into a folder of its name."""
    return [*command, "--prefix", f"V{module}", "--top-module", module, "-Mdir", module, "-CFLAGS", compile_flags]


def _archive(module):
    """Name the archive with a module's class."""
    return f"V{module}__ALL.a"


def _children_cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _build(directory, commands, targets, optimise, log):
    """Translate every module, then compile them in this order: the last one links the others."""
    for module, command in commands.items():
        log(f"building the simulator, once for this design: translating module {module} to C++")
        run_tool(command, directory)
    make = make_command("-j", str(_JOBS), *optimise)
    makes = {each: [*make, "-C", each, "-f", f"V{each}.mk", targets.get(each, _archive(each))] for each in commands}
    for module, command in makes.items():
        place_runtime(command, directory, directory / module)
    watch = _count_compilations(sum(len(compilations(command, directory)) for command in makes.values()), log)
    for command in makes.values():
        run_tool(command, directory, watch)


def _count_compilations(total, log):
    """Give a function that looks at make's output line by line and logs how far it is."""
    begun, reported = 0, -_REPORT_SECONDS

    def watch(line):
        nonlocal begun, reported
        if not COMPILATION.match(line):
            return
        begun += 1
        if begun == total or time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            log(f"compiling {begun} of {total} files")

    return watch
