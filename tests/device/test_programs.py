"""Where programs lie in a machine's memory, and which of them are written."""

from dataclasses import dataclass

import pytest

from etalstm.device import programs as regions
from etalstm.device.accelerator import LoadedProgram
from etalstm.device.programs import ProgramRegion, ProgramRegions
from etalstm.hw.contract import PAGE_BYTES


@dataclass(eq=False)
class Image:
    """Stands for a program of so many bytes."""

    bytes: int

    def image(self):
        return bytes(self.bytes)


class Recorder:
    """Stands for the accelerator: notes what is loaded where."""

    def __init__(self):
        self.loaded = []

    def load(self, image, address):
        self.loaded.append((address, len(image)))
        return LoadedProgram(address, len(image))


class Memory:
    """Gives memory from a page on, as often as there is some."""

    def __init__(self, pieces):
        self.pieces, self.asked = pieces, []

    def find(self, size_bytes):
        self.asked.append(size_bytes)
        if not self.pieces:
            return None
        self.pieces -= 1
        return range(PAGE_BYTES, PAGE_BYTES + size_bytes)


def passes(forward=64, backward=96):
    return {"forward": Image(forward), "backward": Image(backward)}


def test_each_program_begins_at_a_page_and_is_written_once():
    accelerator, extents = Recorder(), {"forward": PAGE_BYTES + 32, "backward": 100}
    region, first = ProgramRegion(accelerator, 2 * PAGE_BYTES, extents), passes()
    region.put(first)
    region.put(first)
    assert accelerator.loaded == [(2 * PAGE_BYTES, 64), (4 * PAGE_BYTES, 96)]
    assert region.addresses == range(2 * PAGE_BYTES, 4 * PAGE_BYTES + 100)
    region.put({"backward": Image(32)})
    assert accelerator.loaded[2:] == [(4 * PAGE_BYTES, 32)] and region["backward"].instructions == 32
    assert [*region.too_long(passes(backward=128))] == ["backward"]


def test_a_number_of_steps_keeps_its_region():
    found, memory = ProgramRegions(Recorder()), Memory(2)
    first = found.of(3, passes(), memory.find)
    assert found.of(5, passes(), memory.find) is not first
    assert found.of(3, passes(forward=90), memory.find) is first, "there is room for programs half as long again"
    assert len(memory.asked) == 2 and found.size_bytes == sum(memory.asked)


def test_programs_that_have_become_too_long_get_another_region():
    found, memory = ProgramRegions(Recorder()), Memory(2)
    first = found.of(3, passes(), memory.find)
    second = found.of(3, passes(forward=200), memory.find)
    assert second is not first and not second.too_long(passes(forward=200))
    assert found.addresses == [second.addresses]


def test_what_was_not_used_for_the_longest_time_gives_way(monkeypatch):
    monkeypatch.setattr(regions, "MOST_REGIONS", 2)
    found, memory = ProgramRegions(Recorder()), Memory(9)
    kept = found.of(3, passes(), memory.find)
    found.of(5, passes(), memory.find)
    found.of(3, passes(), memory.find)
    found.of(7, passes(), memory.find)
    assert len(memory.asked) == 3 and found.of(3, passes(), memory.find) is kept
    found.of(5, passes(), memory.find)
    assert len(memory.asked) == 4


@pytest.mark.parametrize("pieces", [0, 1])
def test_without_memory_there_is_no_region(pieces):
    found, memory = ProgramRegions(Recorder()), Memory(pieces)
    for steps in (3, 5)[: 1 + pieces]:
        region = found.of(steps, passes(), memory.find)
    assert region is None and found.size_bytes == 0
