"""What Linux shows of cards: the character devices of the XDMA driver, and the PCIe bus in sysfs."""

import fcntl
import io
import mmap
import os
import re
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path

import numpy as np

from etalstm.errors import DeviceError
from etalstm_hw.contract import BOARD_SPACE_BYTES

_NAME = re.compile(r"xdma(\d+)_(h2c_\d+|c2h_\d+|user|events_\d+)")


class LockedError(Exception):
    """Another process has the card: `pid`, if that can be told."""

    def __init__(self, pid: int | None):
        super().__init__(pid)
        self.pid = pid


class Node(ABC):
    """One open character device. Every call may raise ``OSError``, as the system call behind it does.

    ``read`` and ``write`` are for ``h2c`` and ``c2h``, ``load``, ``store`` and ``lock`` for ``user``, ``poll`` for
    ``events``.
    """

    @abstractmethod
    def read(self, address: int, buffer: memoryview) -> int:
        """Copy from the card's memory at `address`; block until some bytes are there and give their number."""

    @abstractmethod
    def write(self, address: int, data: memoryview) -> int:
        """Copy to the card's memory at `address`; block until some bytes are there and give their number."""

    @abstractmethod
    def load(self, register: int) -> int:
        """Read a mapped 32-bit register; all ones when the card has left the bus."""

    @abstractmethod
    def store(self, register: int, value: int) -> None:
        """Write a mapped 32-bit register."""

    @abstractmethod
    def poll(self, seconds: float) -> bool:
        """Wait for an interrupt for at most so long; take it, and say whether there was one."""

    @abstractmethod
    def lock(self) -> None:
        """Keep other processes away until the node is closed; raise :class:`LockedError` if one has it."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the node."""


class Nodes(ABC):
    """Where the character devices are found."""

    @abstractmethod
    def names(self) -> list[str]:
        """List the nodes of all cards by name: ``xdma0_user``, ``xdma0_h2c_0`` …"""

    @abstractmethod
    def driver_loaded(self) -> bool:
        """Say whether the kernel module is there."""

    @abstractmethod
    def open(self, name: str) -> Node:
        """Open a node; raise ``OSError`` if that is not possible."""

    def cards(self) -> dict[int, list[str]]:
        """Give the nodes of each card, by its number, each without the card's prefix."""
        found: dict[int, list[str]] = {}
        for name in self.names():
            if match := _NAME.fullmatch(name):
                found.setdefault(int(match[1]), []).append(match[2])
        return {number: sorted(found[number]) for number in sorted(found)}


class CharacterNode(Node):
    """A node below ``/dev``."""

    def __init__(self, path: Path):
        self._file = io.FileIO(path, "r+")
        self._map: mmap.mmap | None = None
        self._words: np.ndarray | None = None

    def read(self, address, buffer):
        """Seek, then read(2): with preadv(2) the driver takes its path for asynchronous transfers."""
        self._file.seek(address)
        return self._file.readinto(buffer)

    def write(self, address, data):
        """Write with pwrite(2)."""
        return os.pwrite(self._file.fileno(), data, address)

    def load(self, register):
        """Read one element of an array of words, which is one load of 32 bits."""
        return int(self._registers[register // 4])

    def store(self, register, value):
        """Write one element of an array of words, which is one store of 32 bits."""
        self._registers[register // 4] = value

    def poll(self, seconds):
        """Poll, then read the four bytes that tell how many events there were and clear them."""
        poller = select.poll()
        poller.register(self._file, select.POLLIN)
        if not poller.poll(seconds * 1000):
            return False
        os.read(self._file.fileno(), 4)
        return True

    def lock(self):
        """Take the advisory lock of the node itself: it ends with the process, however that ends."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(self._holder()) from None

    def close(self):
        """Unmap and close."""
        self._words = None
        if self._map is not None:
            self._map.close()
            self._map = None
        self._file.close()

    @property
    def _registers(self) -> np.ndarray:
        if self._words is None:
            self._map = mmap.mmap(self._file.fileno(), BOARD_SPACE_BYTES)
            self._words = np.frombuffer(self._map, "<u4")
        return self._words

    def _holder(self) -> int | None:
        node = os.fstat(self._file.fileno())
        device = f"{os.major(node.st_dev):02x}:{os.minor(node.st_dev):02x}:{node.st_ino}"
        for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5] == device:
                return int(words[4])
        return None


class CharacterNodes(Nodes):
    """The nodes below ``/dev``, or in another `directory` where udev has been told to put them."""

    def __init__(self, directory: Path = Path("/dev")):
        self._directory = directory

    def names(self):
        """List the directory."""
        return [path.name for path in self._directory.glob("xdma*")]

    def driver_loaded(self):
        """Look for the module; it may be called xdma or, built into a vendor's package, xdma_driver."""
        return any(Path("/sys/module", name).exists() for name in ("xdma", "xdma_driver"))

    def open(self, name):
        """Open the file."""
        return CharacterNode(self._directory / name)


_APPEAR_SECONDS = 10.0


class PciError(DeviceError):
    """The bus cannot be rescanned, or a card does not appear on it."""


class PciBus:
    """The kernel's view of the PCIe bus, which sysfs shows at `root`.

    Takes a card off the bus and finds it again, when its bitstream has changed.
    """

    def __init__(self, root: Path = Path("/sys/bus/pci")):
        self._root = root

    def find(self, vendor: int, devices: Collection[int]) -> list[str]:
        """List the addresses of the cards with one of these identities."""
        found = []
        for path in sorted(self._root.glob("devices/*")):
            identity = [int((path / name).read_text(encoding="utf-8"), 16) for name in ("vendor", "device")]
            if identity[0] == vendor and identity[1] in devices:
                found.append(path.name)
        return found

    def cards(self, address: str) -> list[str]:
        """Name the cards of the XDMA driver at an address, as ``open_device`` does."""
        nodes = (self._root / "devices" / address / "xdma").glob("xdma*_user")
        return sorted(f"xdma:{node.name[len('xdma') : -len('_user')]}" for node in nodes)

    def check_writable(self) -> None:
        """Raise :class:`PciError` if this process may not change the bus."""
        rescan = self._root / "rescan"
        if not rescan.exists():
            raise PciError(f"this machine shows no PCIe bus: there is no {rescan}")
        if not os.access(rescan, os.W_OK):
            raise PciError(f"rescanning PCIe needs root: no permission to write {rescan}; use sudo")

    def remove(self, address: str) -> None:
        """Take a card off the bus, so that it may be reconfigured without errors of the link."""
        self._write(self._root / "devices" / address / "remove")

    def rescan(self, vendor: int, devices: Collection[int], count: int = 1) -> list[str]:
        """Look for cards, and wait for so many of these identities; give their addresses.

        :class:`PciError` if they do not appear within 10 seconds.
        """
        self._write(self._root / "rescan")
        deadline = time.monotonic() + _APPEAR_SECONDS
        while len(found := self.find(vendor, devices)) < count:
            if time.monotonic() > deadline:
                raise PciError(
                    f"{len(found)} of {count} cards appeared within {_APPEAR_SECONDS:g} seconds of the rescan; restart "
                    "the host without cutting its power: not every slot can be trained anew while it runs"
                )
            time.sleep(0.1)
        return found

    @staticmethod
    def _write(path: Path) -> None:
        try:
            path.write_text("1", encoding="utf-8")
        except PermissionError:
            raise PciError(f"no permission to write {path}; use sudo") from None
        except OSError as error:
            raise PciError(f"cannot write {path}: {error.strerror}") from None
