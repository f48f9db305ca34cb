"""Checks that a program's waits order everything that must be ordered, instruction by instruction, turn by turn."""

from collections import defaultdict

import numpy as np

from etalstm.plan.memory.tiling import weight_vectors
from etalstm.plan.program.volume import rows_of_a_lane
from etalstm.plan.program.walk import walk
from etalstm_hw.contract import ENGINE_OF, Engine, Memory, Opcode, Source, VectorOp


class Hazards:
    """Executes a program's waits, and notes for each vector who has touched it last.

    An instruction knows an earlier one to be completed if it waits for it, or for one that knows it, or if both are of
    one engine. What one channel has completed, others may not have. Of every channel an instruction knows the STORE
    that it waits for everywhere, and what this STORE knew: each channel has executed it. CAST, LOAD_ROWS and a LOAD of
    a group read what other channels have written. What a LOAD of a group has read may be overwritten when every
    channel is known to have completed it. Where LOAD_ROWS leaves rows out is not looked at.

    Parameters
    ----------
    config : Config
    groups : int
        Of channels.
    """

    def __init__(self, config, groups=1):
        self._config, self._groups = config, groups
        self._known = {engine: [0] * len(Engine) for engine in Engine}  # what an engine's last instruction knew
        self._known_of_all = {engine: [0] * len(Engine) for engine in Engine}  # ... of every channel
        self._history = defaultdict(lambda: [None])  # by engine, what each of its instructions knew, of all and of one
        self._done = [0] * len(Engine)
        self._written, self._read = {}, defaultdict(dict)
        self._tiles = None
        self._read_by_groups = {}  # by vector, the last LOAD of a group that has read it

    @staticmethod
    def _reads_others(step):
        return step.opcode in (Opcode.CAST, Opcode.LOAD_ROWS) or bool(step.fields.get("group"))

    @staticmethod
    def _waits_for_all(step):
        return step.opcode in (Opcode.CAST, Opcode.LOAD_ROWS) or bool(step.fields["everyone"])

    def check(self, words):
        """Give the number of instructions; raise AssertionError with the first one that may start too early."""
        for count, step in enumerate(walk(words)):
            if step.opcode == Opcode.HALT:
                return count
            engine = ENGINE_OF[step.opcode]
            knows, of_all = self._known[engine], self._known_of_all[engine]
            for other, target in enumerate(step.waits):
                assert target <= self._done[other], f"{count}: {step} waits for what comes later"
                if target:
                    completed, completed_by_all = self._history[other][target]
                    knows, of_all = _most(knows, completed), _most(of_all, completed_by_all)
                    if other == Engine.STORE and self._waits_for_all(step):
                        of_all = _most(of_all, completed)
            if step.opcode == Opcode.MAC:
                of_all = _most(of_all, self._known_of_all[Engine.CAST])
            self._done[engine] += 1
            self._check(count, step, engine, knows, of_all)
            self._known[engine], self._known_of_all[engine] = knows, of_all
            completed = list(knows)
            completed[engine] = self._done[engine]
            self._history[engine].append((completed, of_all))
        raise AssertionError("the program ended without HALT")

    def _check(self, count, step, engine, knows, of_all):
        reads, writes = self._touched(step)
        others = self._reads_others(step)
        for place in writes & self._read_by_groups.keys():
            number = self._read_by_groups[place]
            assert of_all[Engine.LOAD] >= number, f"{count}: {step} overwrites {place}, read by others' LOAD {number}"
        if step.opcode == Opcode.LOAD and step.fields["group"]:
            self._read_by_groups |= dict.fromkeys(reads, self._done[engine])
        for place in reads:
            writer = self._written.get(place)
            if writer and (writer[0] != engine or engine == Engine.VECTOR):
                known = (of_all if others and writer[0] == Engine.STORE else knows)[writer[0]]
                assert known >= writer[1], f"{count}: {step} reads {place}, written by {writer}, knows {knows}"
        for place in writes:
            touched = [*self._read[place].items(), *([self._written[place]] if place in self._written else [])]
            for other, number in touched:
                if other != engine:
                    assert knows[other] >= number, f"{count}: {step} writes {place}, {other} {number}, knows {knows}"
        # What a CAST has read is known by the paired MAC.
        reader = (Engine.MAC, self._done[Engine.MAC] + 1) if engine == Engine.CAST else (engine, self._done[engine])
        for place in reads:
            self._read[place][reader[0]] = reader[1]
        for place in writes:
            self._written[place] = engine, self._done[engine]
            self._read[place] = {}

    def _touched(self, step):
        """What an instruction reads and writes: ("memory", vector), and ("beats", vector) of any channel's window."""
        f = step.fields
        match step.opcode:
            case Opcode.LOAD | Opcode.LOAD_ROWS | Opcode.STORE:
                lanes = self._lanes(Memory(f["memory"]), f, "lane_address", "outer_stride", "inner_stride")
                beats = self._window(step, f["outer"] * f["inner"])
                if step.opcode == Opcode.LOAD_ROWS:
                    vectors = range(f["tiles_per_channel"] * rows_of_a_lane(f))
                    beats = beats | {("beats", f["map"] // self._config.vector_beats + n) for n in vectors}
                return (lanes, beats) if step.opcode == Opcode.STORE else (beats, lanes)
            case Opcode.TRANSPOSE:
                return self._lanes(Memory.SCRATCH, f | {"inner": f["rows"]}, "lane_address", "outer_stride",
                                   "inner_stride"), set()  # fmt: skip
            case Opcode.CAST:
                self._tiles = f["tiles"], weight_vectors(f["tiles"], f["narrow"]), self._indices(f)
                size = 1 if f["compressed"] else f["gates"] * f["batch"]
                return self._window(step, size * f["tiles_per_channel"]), set()
            case Opcode.MAC:
                tiles, vectors, (outer, inner) = self._tiles
                reads = {(Memory.WEIGHTS, f["weights"] + n) for n in range(outer * vectors)}
                if f["start"]:
                    reads |= {(Memory.BIAS, f["bias"] + n) for n in range(tiles)}
                return reads, {(Memory.SUMS, f["sums"] + n) for n in range(inner * tiles)}
            case Opcode.VECTOR:
                reads = set()
                for name in "a" if f["op"] in (VectorOp.SIGMOID, VectorOp.TANH) else "ab":
                    source = f[f"{name}_source"]
                    if source != Source.PARAMETER:
                        memory = Memory.SUMS if source == Source.SUMS else Memory.SCRATCH
                        reads |= self._lanes(memory, f, name, f"{name}_outer", f"{name}_inner")
                return reads, self._lanes(Memory.SCRATCH, f, "d", "d_outer", "d_inner")
        raise AssertionError(step)

    @staticmethod
    def _indices(f):
        """How many outer and inner indices a CAST has."""
        tiles = [(f["tile"] + n) % f["tiles_per_channel"] for n in range(f["blocks"])]
        lanes = sum(f["last_lanes" if tile == f["tiles_per_channel"] - 1 else "lanes"] for tile in tiles)
        rows = lanes * f["gates"]
        return (f["blocks"] * f["batch"], rows // f["blocks"]) if f["batch_outer"] else (rows, f["batch"])

    @staticmethod
    def _lanes(memory, f, address, outer, inner):
        numbers = f[address] + np.add.outer(np.arange(f["outer"]) * f[outer], np.arange(f["inner"]) * f[inner])
        return {(memory, n) for n in np.unique(numbers).tolist()}

    def _window(self, step, vectors):
        """The vectors of the window that a transfer touches; of a stream the vector with its index."""
        first = step.address // self._config.vector_beats
        if step.fields.get("compressed") and step.opcode != Opcode.CAST:
            vectors = 1
        stride = step.fields.get("group_stride", 0) // self._config.vector_beats
        return {("beats", first + group * stride + n) for group in range(self._groups) for n in range(vectors)}


def _most(one, other):
    return [max(a, b) for a, b in zip(one, other, strict=True)]
