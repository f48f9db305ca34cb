"""Where programs lie in a machine's memory, and which of them are written."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from etalstm.device.machine import programs
from etalstm.device.machine.accelerator import LoadedProgram
from etalstm.device.machine.programs import ProgramMemory, ProgramRegion
from etalstm_hw.contract import PAGE_BYTES


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
    """Gives memory behind the plan's, as often as there is some."""

    def __init__(self, pieces):
        self.pieces, self.asked, self._next = pieces, [], 16 * PAGE_BYTES

    def find(self, size_bytes):
        self.asked.append(size_bytes)
        if not self.pieces:
            return None
        self.pieces -= 1
        self._next += 16 * PAGE_BYTES
        return range(self._next, self._next + size_bytes)


@dataclass
class Planned:
    """Stands for a plan of nine steps."""

    programs: dict
    memory_bytes: int = 1000

    @property
    def program_extents(self):
        return {name: program.bytes for name, program in self.programs.items()}

    @property
    def map(self):
        return SimpleNamespace(steps=9)


def passes(forward=64, backward=96):
    return {"forward": Image(forward), "backward": Image(backward)}


def test_each_program_begins_at_a_page_and_is_written_once():
    accelerator, sizes = Recorder(), {"forward": PAGE_BYTES + 32, "backward": 100}
    region, first = ProgramRegion(accelerator, 2 * PAGE_BYTES, sizes), passes()
    region.put(first)
    region.put(first)
    assert accelerator.loaded == [(2 * PAGE_BYTES, 64), (4 * PAGE_BYTES, 96)]
    assert region.addresses == range(2 * PAGE_BYTES, 4 * PAGE_BYTES + 100)
    region.put({"backward": Image(32)})
    assert accelerator.loaded[2:] == [(4 * PAGE_BYTES, 32)] and region["backward"].instructions == 32
    assert [*region.too_long(passes(backward=128))] == ["backward"]


def memory_of(memory, budget=None):
    """The programs of a session whose plan has two passes and an update."""
    found = ProgramMemory(Recorder(), memory.find, budget)
    found.adopt(Planned(passes() | {"update": Image(32)}), PAGE_BYTES)
    return found


def test_a_number_of_steps_keeps_its_region():
    memory = Memory(2)
    found = memory_of(memory)
    for steps in (3, 5):
        assert not found.bring(steps, passes())
    regions = found.beside
    assert not found.bring(3, passes(forward=90)), "there is room for programs half as long again"
    assert {*map(str, found.beside)} == {*map(str, regions)} and len(memory.asked) == 2
    assert found.bytes_beside == sum(memory.asked)


def test_the_passes_that_were_brought_run_and_all_else_is_the_plan_s():
    found, shorter = memory_of(Memory(1)), passes()
    found.bring(3, shorter)
    program, loaded = found["forward"]
    assert program is shorter["forward"] and loaded.address == found.beside[0].start
    assert found["update"][1].address == 3 * PAGE_BYTES
    whole = passes()
    found.bring(9, whole)
    assert found["forward"][0] is whole["forward"] and found["forward"][1].address == PAGE_BYTES


def test_programs_that_have_become_too_long_get_another_region():
    found = memory_of(Memory(2))
    found.bring(3, passes())
    (before,) = found.beside
    assert not found.bring(3, passes(forward=200))
    (after,) = found.beside
    assert after.start != before.start


def test_what_was_not_used_for_the_longest_time_gives_way(monkeypatch):
    monkeypatch.setattr(programs, "MOST_REGIONS", 2)
    memory = Memory(9)
    found = memory_of(memory)
    for steps in (3, 5, 3, 7):
        found.bring(steps, passes())
    assert len(found.beside) == 2 and len(memory.asked) == 3
    found.bring(3, passes())
    assert len(memory.asked) == 3
    found.bring(5, passes())
    assert len(memory.asked) == 4


def test_without_memory_beside_the_plan_its_passes_give_way():
    found, shorter = memory_of(Memory(0)), passes()
    assert not found.bring(3, shorter) and not found.beside
    assert found["forward"][0] is shorter["forward"] and found["forward"][1].address == PAGE_BYTES
    longer = passes(backward=200)
    assert found.bring(5, longer) == {"backward": longer["backward"]}
    assert found["forward"][0] is shorter["forward"], "nothing was brought"


@pytest.mark.parametrize("room", [0, 1])
def test_regions_keep_within_the_budget(room):
    needed = PAGE_BYTES + 96 * 3 // 2
    found = memory_of(Memory(9), 1000 + needed + room - 1)
    found.bring(3, passes())
    assert found.bytes_beside == room * needed


def test_another_plan_has_no_regions_yet():
    found = memory_of(Memory(9))
    found.bring(3, passes())
    found.leave()
    assert not found.beside
