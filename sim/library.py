"""Builds a design into a shared library that simulates it, once, and keeps the result."""

import ctypes
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import etalstm.hw
from etalstm.hw import generate
from etalstm.hw.config import Config
from etalstm.hw.top import top_signature
from etalstm.sim import toolchain
from etalstm.sim.glue import glue
from etalstm.sim.registered import MODULE, registered
from etalstm.sim.toolchain import ToolchainError

WAVEFORMS = ("fst", "vcd")
_SOURCES = ("memory.h", "memory.cpp", "simulation.cpp")
_COMPILE_FLAGS = "-std=c++17 -march=native -fno-plt -fvisibility-inlines-hidden -DVL_USER_FATAL"
# In files of this size two cores compile it at -O3 as fast as in one piece at -O1, and it runs a tenth faster.
_FLAGS = ("--output-split", "20000")
_OPTIMISE = ("OPT_FAST=-O3", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2")
_FST_HEADERS = ("lz4.h", "zlib.h")


@dataclass(frozen=True)
class Design:
    """Verilog of a module ``top`` and its ports, as :func:`etalstm.hw.generate.ports` lists them."""

    verilog: str
    ports: list[dict]

    @classmethod
    def of(cls, component) -> "Design":
        """Convert an Amaranth component."""
        return cls(generate.component_verilog(component), generate.ports(component.signature))


@dataclass(frozen=True)
class Library:
    """A built simulator.

    Members
    -------
    path : Path
        The shared library.
    seconds : float
        How long this process took to build it; 0 if it was there.
    """

    path: Path
    seconds: float

    @property
    def calls(self) -> ctypes.CDLL:
        """The loaded library, its functions typed."""
        return _load(self.path)


def repeated_modules(verilog: str) -> list[str]:
    """Name the modules, of those with a plain name, that the text instantiates more than once, in its order."""
    names = re.findall(r"^module (\w+) *\(", verilog, re.M)
    instances = Counter(re.findall(r"^ +(\w+) +\S+ +\($", verilog, re.M))
    return [name for name in names if instances[name] > 1]


def _apart(verilog: str) -> str:
    """Have Verilator keep the logic of each instance of these together, in functions of its own.

    Else it goes through all lanes signal by signal: that is slower, and takes longer to compile.
    """
    return "\n".join(["`verilator_config", *(f'no_inline -module "{name}"' for name in repeated_modules(verilog)), ""])


@cache
def _generator_key() -> tuple[str, ...]:
    """Everything but the configuration that decides what Verilog comes out."""
    directory = Path(etalstm.hw.__file__).parent
    texts = [f"{path.relative_to(directory)}\n{path.read_text()}" for path in sorted(directory.rglob("*.py"))]
    return *texts, version("amaranth")


def design(config: Config) -> Design:
    """Give the accelerator's design for a configuration; elaborated once, then read from the cache."""

    def build(directory: Path):
        (directory / "top.v").write_text(generate.verilog(config))
        (directory / "ports.json").write_text(json.dumps(generate.ports(top_signature(config))))

    key = [json.dumps(config.as_dict(), sort_keys=True), *_generator_key()]
    directory, _ = toolchain.cached_build("verilog", key, build)
    return Design((directory / "top.v").read_text(), json.loads((directory / "ports.json").read_text()))


def build_library(design: Design, waveform: str | None = None, log: Callable[[str], None] = lambda _: None) -> Library:
    """Compile a design with the memory model into a shared library, unless the cache has it.

    Parameters
    ----------
    design : Design
    waveform : "fst", "vcd" or None
        Make a build that can write a waveform; it is slower even when it does not.
    log : function
        Told when a build begins.

    Raises
    ------
    ToolchainError
        If a tool is missing or fails; the message shows the log's end.
    ValueError
        If the design's ports are not those of an accelerator.
    """
    if waveform is not None and waveform not in WAVEFORMS:
        raise ValueError(f"waveform must be one of {', '.join(WAVEFORMS)}, got {waveform!r}")
    if waveform == "fst":
        _require_fst()
    texts = {"top.v": design.verilog, f"{MODULE}.v": registered(design.ports, "top")}
    texts |= {"apart.vlt": _apart(design.verilog), "glue.h": glue(design.ports, waveform)}
    texts |= {name: (Path(__file__).parent / name).read_text() for name in _SOURCES}
    flags = [*_FLAGS, *([f"--trace-{waveform}"] if waveform else [])]
    start = time.monotonic()
    path, built = toolchain.cached_library(
        "library", MODULE, texts, flags=flags, compile_flags=_COMPILE_FLAGS, optimise=_OPTIMISE, log=log
    )
    return Library(path, time.monotonic() - start if built else 0.0)


def _require_fst():
    """Raise :class:`ToolchainError` if the libraries that compress FST waveforms are not installed."""
    program = "".join(f"#include <{header}>\n" for header in _FST_HEADERS).encode()
    environment = toolchain.verilator_environment()
    result = subprocess.run(
        ["g++", "-E", "-x", "c++", "-", "-o", "/dev/null"],
        input=program,
        env=environment,
        capture_output=True,
        check=False,
    )
    if result.returncode:
        raise ToolchainError(
            "FST waveforms need lz4 and zlib. Try: apt-get install liblz4-dev zlib1g-dev, or name the waveform .vcd"
        )


class Options(ctypes.Structure):
    """``etalstm::Options`` of memory.h."""

    _fields_ = (
        ("latency", ctypes.c_uint32),
        ("outstanding", ctypes.c_uint32),
        ("bandwidth", ctypes.c_double),
        ("stall", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("reorder", ctypes.c_uint32),
    )


@cache
def _load(path: Path) -> ctypes.CDLL:
    word, long, handle = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
    signatures = {
        "create": (handle, ctypes.c_void_p, long, ctypes.POINTER(Options)),
        "destroy": (None, handle),
        "reset": (ctypes.c_int, handle),
        "write": (ctypes.c_int, handle, word, word),
        "read": (ctypes.c_int, handle, word, ctypes.POINTER(word)),
        "run": (ctypes.c_int, handle, long),
        "cycle": (long, handle),
        "violation": (ctypes.c_char_p, handle),
        "fault": (None, handle, long, long, word),
        "clear_faults": (None, handle),
        "beats": (long, handle, word, word),
        "trace": (ctypes.c_int, handle, ctypes.c_char_p),
        "flush": (None, handle),
    }
    library = ctypes.CDLL(str(path))
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, f"simulation_{name}")
        function.restype, function.argtypes = result, arguments
    return library
