"""Builds a design into a shared library that simulates it, once, and keeps the result."""

import ctypes
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import etalstm_hw
from etalstm.errors import ToolchainError
from etalstm_hw import generate
from etalstm_hw.config import Config
from etalstm_hw.machine.top import top_signature
from etalstm_sim.compiled import toolchain
from etalstm_sim.compiled.core import Core, is_of_channel
from etalstm_sim.compiled.glue import glue
from etalstm_sim.compiled.observed import FLAGS as COVERAGE_FLAGS
from etalstm_sim.compiled.observed import OUTPUTS, observed
from etalstm_sim.compiled.registered import MODULE, registered
from etalstm_sim.compiled.sockets import CHANNEL, channel_wrapper, sockets
from etalstm_sim.compiled.sources import cpp_source
from etalstm_sim.compiled.verilated import COST, cached_library

WAVEFORMS = ("fst", "vcd")
# Cycles per second of CPU time, 32 lanes to a channel, apart and in one piece: 58,400 and 67,300 with 4 channels, 6,300
# and 600 with 40. With few channels the exchange of signals costs more than the smaller code saves.
APART_CHANNELS = 8
_CHANNEL_FILES = ("channel.v", f"{CHANNEL}.v", "channel.vlt")
_SOURCES = ("protocol.h", "protocol.cpp", "memory.h", "memory.cpp", "simulation.cpp")
_COMPILE_FLAGS = "-std=c++17 -march=native -fno-plt -fvisibility-inlines-hidden -DVL_USER_FATAL"
_FLAGS = ("--output-split", "20000")
# At -O3 a build takes a seventh to a half more, and runs are as long within 3 %: `compare` on presets sim and slice.
_OPTIMISE = ("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2")
_FST_HEADERS = ("lz4.h", "zlib.h")


@dataclass(frozen=True)
class Design:
    """Verilog of a module ``top`` and its ports, as :func:`etalstm_hw.generate.ports` lists them.

    Members
    -------
    verilog : str
    ports : list of dict
    channel : Design, optional
        Module ``channel``, if the design is a :class:`etalstm_sim.compiled.core.Core`, whose channels are not in it.
    channels : int
        How many there are then.
    """

    verilog: str
    ports: list[dict]
    channel: "Design | None" = None
    channels: int = 0

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
    observed : bool
        It counts what is dispatched and what toggles.
    """

    path: Path
    seconds: float
    observed: bool = False

    @property
    def cost(self) -> dict[str, float]:
        """The cost of the build, also of an earlier one: ``seconds``, and ``cpu_seconds`` of all its processes."""
        return json.loads((self.path.parent / COST).read_text(encoding="utf-8"))

    @property
    def calls(self) -> ctypes.CDLL:
        """The loaded library, its functions typed."""
        return _load(self.path)


def repeated_modules(verilog: str) -> list[str]:
    """Name the modules, of those with a plain name, that the text instantiates more than once, in its order."""
    names = re.findall(r"^module (\w+) *\(", verilog, re.M)
    instances = Counter(re.findall(r"^ +(\w+) +\S+ +\($", verilog, re.M))
    return [name for name in names if instances[name] > 1]


def _instances_apart(verilog: str) -> str:
    """Give directives by which Verilator keeps each instance of repeated modules in functions of its own.

    Without them it evaluates all lanes signal by signal, which is slower and takes longer to compile.
    """
    return "\n".join(["`verilator_config", *(f'no_inline -module "{name}"' for name in repeated_modules(verilog)), ""])


@cache
def _generator_key() -> tuple[str, ...]:
    """Give everything besides the configuration that decides the generated Verilog."""
    directory = Path(etalstm_hw.__file__).parent
    texts = [
        f"{path.relative_to(directory)}\n{path.read_text(encoding='utf-8')}" for path in sorted(directory.rglob("*.py"))
    ]
    return *texts, version("amaranth")


def is_apart(config: Config) -> bool:
    """Tell whether the machine's simulator compiles one channel for all, which pays for many channels."""
    return config.channels >= APART_CHANNELS


def design(config: Config, apart: bool | None = None) -> Design:
    """Give the accelerator's design for a configuration; elaborated once, then read from the cache.

    Parameters
    ----------
    config : Config
    apart : bool, optional
        Leave the channels out, so that a simulator compiles one of them once. None: as :func:`is_apart` says.
    """
    apart = is_apart(config) if apart is None else apart
    names = ("core", "channel") if apart else ("top",)

    def build(directory: Path):
        for name, made in zip(names, _core_and_channel(config) if apart else [_whole(config)], strict=True):
            (directory / f"{name}.v").write_text(made.verilog, encoding="utf-8")
            (directory / f"{name}.json").write_text(json.dumps(made.ports), encoding="utf-8")

    key = [json.dumps(config.as_dict(), sort_keys=True), *names, *_generator_key()]
    directory, _ = toolchain.compiled_build("verilog", key, build)
    found = [
        Design(
            (directory / f"{name}.v").read_text(encoding="utf-8"),
            json.loads((directory / f"{name}.json").read_text(encoding="utf-8")),
        )
        for name in names
    ]
    return replace(found[0], channel=found[1], channels=config.channels) if apart else found[0]


def _whole(config):
    return Design(generate.verilog(config), generate.ports(top_signature(config)))


def _core_and_channel(config):
    modules, broadcasters = generate.channel_modules(config), generate.broadcaster_modules(config)
    signature, broadcaster = modules["channel"].signature, broadcasters["broadcaster"]
    core = Core(config, signature, lambda _: generate.Instanced.of("broadcaster", broadcaster))
    return (
        Design(generate.modules_verilog(broadcasters | {"top": core}), generate.ports(core.signature)),
        Design(generate.modules_verilog(modules), generate.ports(signature)),
    )


def build_library(
    design: Design,
    waveform: str | None = None,
    log: Callable[[str], None] = lambda _: None,
    *,
    coverage: bool = False,
) -> Library:
    """Compile a design with the memory model into a shared library, unless the cache has it.

    Parameters
    ----------
    design : Design
    waveform : "fst", "vcd" or None
        Make a build that can write a waveform; it is slower even when it does not.
    log : function
        Told how far the build is.
    coverage : bool
        Count what is dispatched and what toggles, see :mod:`etalstm_sim.compiled.observed`; of a whole
        accelerator in one piece. It is slower.

    Raises
    ------
    ToolchainError
        If a tool is missing or fails; the message shows the log's end.
    ValueError
        If the design's ports are not those of an accelerator, or its channels are apart and `coverage` is asked for.
    """
    if coverage and design.channel:
        raise ValueError(f"coverage needs a design in one piece, got one with {design.channels} channels apart")
    if waveform is not None and waveform not in WAVEFORMS:
        raise ValueError(f"waveform must be one of {', '.join(WAVEFORMS)}, got {waveform!r}")
    if waveform == "fst":
        _require_fst()
    texts = _texts(design, waveform, coverage) | (_channel_texts(design) if design.channel else {})
    flags = [*_FLAGS, *([f"--trace-{waveform}"] if waveform else []), *(COVERAGE_FLAGS if coverage else ())]
    modules = {CHANNEL: _CHANNEL_FILES} if design.channel else {}
    start = time.monotonic()
    path, built = cached_library(
        "library", MODULE, texts, modules=modules, flags=flags, compile_flags=_COMPILE_FLAGS, optimise=_OPTIMISE,
        log=log,
    )  # fmt: skip
    return Library(path, time.monotonic() - start if built else 0.0, coverage)


def _texts(design, waveform, coverage):
    """Give the files of every simulator."""
    texts = {"top.v": design.verilog}
    texts[f"{MODULE}.v"] = registered(design.ports, "top", is_of_channel, OUTPUTS if coverage else {})
    texts = {name: observed(text) if coverage else text for name, text in texts.items()}
    texts |= {"apart.vlt": _instances_apart(design.verilog), "glue.h": glue(design.ports, waveform, coverage)}
    texts |= {"machine.h": cpp_source("apart.h" if design.channel else "whole.h")}
    return texts | {name: cpp_source(name) for name in _SOURCES}


def _channel_texts(design):
    """Give the files of a channel that is compiled by itself."""
    channel = design.channel
    texts = (channel.verilog, channel_wrapper(channel.ports), _instances_apart(channel.verilog))
    return dict(zip(_CHANNEL_FILES, texts, strict=True)) | {"sockets.h": sockets(channel.ports, design.channels)}


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
        ("reads", ctypes.c_uint32),
        ("writes", ctypes.c_uint32),
        ("checked", ctypes.c_uint32),
        ("strobes", ctypes.c_uint32),
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
        "breach": (ctypes.c_char_p, handle),
        "failure": (ctypes.c_char_p, handle),
        "fault": (None, handle, long, long, word),
        "clear_faults": (None, handle),
        "upset": (None, handle, word, word, long, word),
        "was_upset": (ctypes.c_int, handle, word),
        "beats": (long, handle, word, word),
        "observed": (long, handle, ctypes.POINTER(word)),
        "write_coverage": (ctypes.c_int, handle, ctypes.c_char_p),
        "trace": (ctypes.c_int, handle, ctypes.c_char_p, long, long),
        "flush": (None, handle),
    }
    library = ctypes.CDLL(str(path))
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, f"simulation_{name}")
        function.restype, function.argtypes = result, arguments
    return library
