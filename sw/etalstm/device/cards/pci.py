"""Takes a card off the PCIe bus and finds it again, through sysfs: what a card needs whose bitstream has changed."""

import os
import time
from collections.abc import Collection
from pathlib import Path

from etalstm.errors import DeviceError

_APPEAR_SECONDS = 10.0


class PciError(DeviceError):
    """The bus cannot be rescanned, or a card does not appear on it."""


class PciBus:
    """The kernel's view of the PCIe bus.

    Parameters
    ----------
    root : Path
        Where sysfs shows it.
    """

    def __init__(self, root: Path = Path("/sys/bus/pci")):
        self._root = root

    def find(self, vendor: int, devices: Collection[int]) -> list[str]:
        """List the addresses of the cards with one of these identities."""
        found = []
        for path in sorted(self._root.glob("devices/*")):
            identity = [int((path / name).read_text(), 16) for name in ("vendor", "device")]
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

        Raises
        ------
        PciError
            If they do not appear within 10 seconds.
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
            path.write_text("1")
        except PermissionError:
            raise PciError(f"no permission to write {path}; use sudo") from None
        except OSError as error:
            raise PciError(f"cannot write {path}: {error.strerror}") from None
