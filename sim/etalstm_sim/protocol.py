"""The AXI checker of protocol.h, for ports that Python observes: in cocotb, and in tests."""

import ctypes
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

from etalstm.errors import ProtocolError
from etalstm_hw.axi.axi import BURST_BEATS
from etalstm_sim.compiled.sources import cpp_source
from etalstm_sim.compiled.toolchain import compiled_build, run_tool

WHOLE_BEATS, ALIGNED_BURSTS, WHOLE_STROBES, ADDRESS_FIRST = 1, 2, 4, 8  # what a manager may promise
ALL_PROMISES = WHOLE_BEATS | ALIGNED_BURSTS | WHOLE_STROBES | ADDRESS_FIRST
_SOURCES = ("protocol.h", "protocol.cpp")


class Address(ctypes.Structure):
    """``etalstm::Address`` of protocol.h."""

    _fields_ = (
        ("valid", ctypes.c_bool),
        ("address", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("length", "size", "burst", "id")),
    )


class Shown(ctypes.Structure):
    """``etalstm::Shown`` of protocol.h: what a manager shows in a cycle."""

    _fields_ = (
        ("read", Address),
        ("write", Address),
        *((name, ctypes.c_bool) for name in ("rready", "wvalid", "wlast", "bready")),
        ("strobe", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
    )


class Driven(ctypes.Structure):
    """``etalstm::Driven`` of protocol.h: what a subordinate shows in a cycle."""

    _fields_ = (
        *((name, ctypes.c_bool) for name in ("arready", "rvalid", "rlast", "awready", "wready", "bvalid")),
        *((name, ctypes.c_uint32) for name in ("rid", "bid")),
        *((name, ctypes.c_uint8) for name in ("rresp", "bresp")),
        ("data", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Rules:
    """``etalstm::Rules`` of protocol.h: how a port differs from others.

    Members
    -------
    beat_bytes : width of the port
    burst_beats : most beats of a burst
    ids : the manager's ids are below this
    reads, writes : most bursts in flight; 0: nothing is promised
    promises : what the manager promises beyond AXI, a sum of the constants above
    """

    beat_bytes: int
    burst_beats: int = BURST_BEATS
    ids: int = 1
    reads: int = 0
    writes: int = 0
    promises: int = ALL_PROMISES


class Checker:
    """Checks one port, cycle by cycle.

    Parameters
    ----------
    port : str
        Name of the port in errors.
    rules : Rules
    """

    def __init__(self, port: str, rules: Rules):
        self._calls = _library()
        self._handle = self._calls.checker_create(port.encode(), _Rules(*astuple(rules)))

    def __del__(self):
        self._calls.checker_destroy(self._handle)

    def step(self, shown: Shown, driven: Driven, *, reset: bool, cycle: int) -> None:
        """Check what both sides show in a cycle.

        Raises
        ------
        ProtocolError
            If it breaks a rule, and in every cycle after that.
        """
        breach = self._calls.checker_step(self._handle, shown, driven, reset, cycle)
        if breach:
            raise error_of(breach.decode())


def error_of(breach: str) -> ProtocolError:
    """Give the error for a breach as ``Breach::fields`` writes it."""
    cycle, *fields = breach.split("\t", 4)
    return ProtocolError(int(cycle), *fields)


def rules() -> list[str]:
    """Name every rule."""
    calls = _library()
    return [calls.rules_name(number).decode() for number in range(calls.rules_count())]


class _Rules(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint32) for name in ("beat_bytes", "burst_beats", "ids", "reads", "writes", "promises")
    )


@cache
def _library() -> ctypes.CDLL:
    """Compile the checker, unless the cache has it."""
    texts = {name: cpp_source(name) for name in _SOURCES}

    def build(directory: Path):
        for name, text in texts.items():
            (directory / name).write_text(text, encoding="utf-8")
        run_tool(["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "protocol.cpp", "-o", "protocol.so"], directory)

    directory, _ = compiled_build("protocol", list(texts.values()), build)
    library = ctypes.CDLL(str(directory / "protocol.so"))
    handle, text = ctypes.c_void_p, ctypes.c_char_p
    signatures = {
        "checker_create": (handle, text, ctypes.POINTER(_Rules)),
        "checker_destroy": (None, handle),
        "checker_step": (
            *(text, handle, ctypes.POINTER(Shown), ctypes.POINTER(Driven)),
            *(ctypes.c_int, ctypes.c_uint64),
        ),
        "rules_count": (ctypes.c_uint,),
        "rules_name": (text, ctypes.c_uint),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
