"""A machine as a device: where its sessions lie in its memory."""

import weakref

from etalstm.device.accelerator import PAGE_BYTES, Accelerator
from etalstm.device.api import Device
from etalstm.device.session import HardwareSession
from etalstm.device.shape import TrainingShape
from etalstm.errors import PlanError


class HardwareDevice(Device):
    """A machine that trains, whatever its transport.

    Parameters
    ----------
    name, preset : str
    accelerator : Accelerator
    """

    def __init__(self, name: str, preset: str, accelerator: Accelerator):
        self.name, self.preset, self.accelerator = name, preset, accelerator
        self._sessions: weakref.WeakSet[HardwareSession] = weakref.WeakSet()

    def create(self, shape: TrainingShape) -> HardwareSession:
        """Plan a network and place it in memory that no living session uses.

        Raises
        ------
        PlanError
            If it does not fit; the message says what is needed and what there is.
        """
        session = HardwareSession(shape, self.accelerator, self._place)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        """Let go of the machine."""
        self.accelerator.transport.close()

    def _place(self, needed: int, mover: HardwareSession) -> int:
        """Find memory that no other living session than `mover` uses.

        Returns
        -------
        int
            Address of the first of `needed` bytes.

        Raises
        ------
        PlanError
            If there is not so much in one piece.
        """
        base, memory_bytes = 0, self.accelerator.transport.memory_bytes
        others = [session for session in self._sessions if session is not mover]
        for session in sorted(others, key=lambda s: s.base):
            if session.base - base >= needed:
                break
            base = -(-(session.base + session.size_bytes) // PAGE_BYTES) * PAGE_BYTES
        if base + needed > memory_bytes:
            raise PlanError(
                f"the network needs {needed:,} bytes of memory beside the {len(others)} that are there, "
                f"the device has {memory_bytes:,}"
            )
        return base
