"""A manager of the memory model's port, moved cycle by cycle."""

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from etalstm_sim.compiled import toolchain
from etalstm_sim.compiled.library import Options
from etalstm_sim.compiled.sources import FOLDER
from etalstm_sim.protocol import Driven, Shown

BEAT_BYTES = 4
MEMORY_BYTES = 1 << 14
_HERE = Path(__file__).parent
_INCREMENTING = 1


@cache
def _library():
    paths = [
        _HERE / "port.cpp",
        *(FOLDER / f"{name}.{kind}" for name in ("protocol", "memory") for kind in ("h", "cpp")),
    ]
    texts = {path.name: path.read_text() for path in paths}

    def build(directory):
        for name, text in texts.items():
            (directory / name).write_text(text)
        sources = [name for name in texts if name.endswith(".cpp")]
        toolchain.run_tool(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", *sources, "-o", "port.so"], directory)

    directory, _ = toolchain.compiled_build("port", list(texts.values()), build)
    library = ctypes.CDLL(str(directory / "port.so"))
    library.port_create.restype = ctypes.c_void_p
    word = ctypes.c_uint32
    library.port_create.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(Options), word, word]
    library.port_destroy.argtypes = library.port_breach.argtypes = [ctypes.c_void_p]
    library.port_step.restype = ctypes.POINTER(Driven)
    library.port_step.argtypes = [ctypes.c_void_p, ctypes.POINTER(Shown)]
    library.port_breach.restype = ctypes.c_char_p
    return library


class Manager:
    """Shows one cycle after the other what its fields say.

    Parameters
    ----------
    stall, seed, outstanding, reorder : of the memory
    ids : int
        The manager's are below this.

    Members
    -------
    shown, driven : ctypes structures
        What the manager and the memory show in the coming cycle, with the names of protocol.h.
    word : int
        The write data, 32 bits.
    memory : array, uint8
    cycle : int
    """

    def __init__(self, stall: float = 0.0, seed: int = 1, outstanding: int = 4, reorder: bool = False, ids: int = 1):
        self.memory = np.zeros(MEMORY_BYTES, np.uint8)
        options = Options(1, outstanding, 0.0, stall, seed, reorder, 0, 0, 1)
        place = self.memory.ctypes.data, MEMORY_BYTES
        self._bench = _library().port_create(*place, ctypes.byref(options), BEAT_BYTES, ids)
        self._word = ctypes.c_uint32()
        self.shown = Shown(data=ctypes.addressof(self._word), strobe=0xF)
        for channel in (self.shown.read, self.shown.write):
            channel.size, channel.burst = BEAT_BYTES.bit_length() - 1, _INCREMENTING
        self.driven = Driven()
        self.cycle = 0

    @property
    def word(self):
        return self._word.value

    @word.setter
    def word(self, value):
        self._word.value = value

    @property
    def breach(self) -> str:
        """The first breach of the protocol, with tabs between its fields."""
        return _library().port_breach(self._bench).decode()

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
        self.driven = Driven.from_buffer_copy(_library().port_step(self._bench, ctypes.byref(shown)).contents)
        self.cycle += 1
        return happened

    def close(self) -> None:
        _library().port_destroy(self._bench)
