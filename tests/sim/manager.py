"""A manager of the memory model's port, moved cycle by cycle, that can be made to break the protocol."""

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

import etalstm.sim
from etalstm.sim import toolchain
from etalstm.sim.library import Options

BEAT_BYTES = 4
MEMORY_BYTES = 1 << 14
_HERE, _SOURCES = Path(__file__).parent, Path(etalstm.sim.__file__).parent
_INCREMENTING = 1


class _Address(ctypes.Structure):
    _fields_ = (
        ("valid", ctypes.c_bool),
        ("address", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("length", "size", "burst", "id")),
    )


class _Shown(ctypes.Structure):
    _fields_ = (
        ("read", _Address),
        ("write", _Address),
        *((name, ctypes.c_bool) for name in ("rready", "wvalid", "wlast", "bready")),
        ("strobe", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
    )


class _Driven(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_bool) for name in ("arready", "rvalid", "rlast", "awready", "wready", "bvalid")),
        *((name, ctypes.c_uint32) for name in ("rid", "bid")),
        *((name, ctypes.c_uint8) for name in ("rresp", "bresp")),
        ("data", ctypes.c_void_p),
    )


@cache
def _library():
    texts = {
        path.name: path.read_text() for path in (_HERE / "port.cpp", _SOURCES / "memory.cpp", _SOURCES / "memory.h")
    }

    def build(directory):
        for name, text in texts.items():
            (directory / name).write_text(text)
        command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "port.cpp", "memory.cpp", "-o", "port.so"]
        toolchain.run_tool(command, directory)

    directory, _ = toolchain.cached_build("port", list(texts.values()), build)
    library = ctypes.CDLL(str(directory / "port.so"))
    library.port_create.restype = ctypes.c_void_p
    library.port_create.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(Options), ctypes.c_uint32]
    library.port_destroy.argtypes = library.port_violation.argtypes = [ctypes.c_void_p]
    library.port_step.restype = ctypes.POINTER(_Driven)
    library.port_step.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Shown)]
    library.port_violation.restype = ctypes.c_char_p
    return library


class Manager:
    """Shows one cycle after the other what its fields say.

    Parameters
    ----------
    stall : float
    seed : int

    Members
    -------
    shown, driven : ctypes structures
        What the manager and the memory show in the coming cycle, with the names of memory.h.
    word : int
        The write data, 32 bits.
    memory : array, uint8
    cycle : int
    """

    def __init__(self, stall: float = 0.0, seed: int = 1, outstanding: int = 4):
        self.memory = np.zeros(MEMORY_BYTES, np.uint8)
        options = Options(1, outstanding, 0.0, stall, seed, 0)
        self._bench = _library().port_create(self.memory.ctypes.data, MEMORY_BYTES, ctypes.byref(options), BEAT_BYTES)
        self._word = ctypes.c_uint32()
        self.shown = _Shown(data=ctypes.addressof(self._word), strobe=0xF)
        for channel in (self.shown.read, self.shown.write):
            channel.size, channel.burst = BEAT_BYTES.bit_length() - 1, _INCREMENTING
        self.driven = _Driven()
        self.cycle = 0

    @property
    def word(self):
        return self._word.value

    @word.setter
    def word(self, value):
        self._word.value = value

    @property
    def violation(self) -> str:
        """The first breach of the protocol."""
        return _library().port_violation(self._bench).decode()

    def step(self) -> dict[str, bool]:
        """End the cycle; say which of the handshakes happened in it."""
        shown, driven = self.shown, self.driven
        happened = {
            "ar": shown.read.valid and driven.arready,
            "aw": shown.write.valid and driven.awready,
            "w": shown.wvalid and driven.wready,
            "r": driven.rvalid and shown.rready,
            "b": driven.bvalid and shown.bready,
        }
        self.driven = _Driven.from_buffer_copy(_library().port_step(self._bench, ctypes.byref(shown)).contents)
        self.cycle += 1
        return happened

    def close(self) -> None:
        _library().port_destroy(self._bench)
