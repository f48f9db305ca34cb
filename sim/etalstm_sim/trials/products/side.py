"""Programs that a trial runs behind a session."""

from etalstm.plan.memory.memory_map import whole_pages
from etalstm.plan.program.program import Program


class SidePrograms:
    """Programs that a trial runs behind a session, on the session's memory map; the only session of the device."""

    def __init__(self, device, session, programs: dict[str, Program]):
        self._accelerator, self._placement = device.accelerator, session.placement
        self._loaded = {}
        address = session.placement.end
        for name, program in programs.items():
            address, image = whole_pages(address), program.image()
            self._loaded[name] = self._accelerator.load(image, address)
            address += len(image)

    def run(self) -> dict[str, dict]:
        """Run all; give the counters of each."""
        return {name: self.run_one(name) for name in self._loaded}

    def run_one(self, name: str) -> dict:
        """Run one; give its counters."""
        placement = self._placement
        self._accelerator.set_windows(placement.base, placement.stride, placement.window_bytes)
        self._accelerator.run(self._loaded[name])
        return self._accelerator.counters()
