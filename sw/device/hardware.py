"""Sessions on a machine: what the host's arrays are in its memory, and which program runs when."""

import weakref
from collections.abc import Callable

import numpy as np

from etalstm.device.accelerator import PAGE_BYTES, Accelerator
from etalstm.device.api import Device, Outputs, Session, TrainingShape
from etalstm.device.deltas import DeltaReader
from etalstm.device.faults import LogFullError
from etalstm.device.room import FIRST, Room
from etalstm.errors import PlanError
from etalstm.hw import contract
from etalstm.network import LayerGradients, LayerParameters, canonical_rows
from etalstm.optimizer import contribution_norms
from etalstm.plan.emit import Place
from etalstm.plan.memory import Array, pack, unpack
from etalstm.plan.network import LOCAL_GRADIENTS, LayerArrays
from etalstm.plan.plan import Plan
from etalstm.plan.program import streams_before
from etalstm.storage import DENSE_TENSORS, KINDS, Usage

SURVIVING = ("weights", "optimizer")  # kinds of arrays that a new plan takes over


class HardwareSession(Session):
    """A session whose passes are programs of an :class:`Accelerator`.

    A pass that finds a log too small has changed no weight: a plan with a larger log takes over weights and velocities,
    and the pass is run again.

    Parameters
    ----------
    shape : TrainingShape
    device : HardwareDevice

    Raises
    ------
    PlanError
        If the network does not fit the memory that is left, now or when a log must grow; then nothing is lost.

    Members
    -------
    plan : Plan
    base, size_bytes : int
        The session's part of the memory, from a multiple of 4096 on.
    """

    reduces = True

    def __init__(self, shape: TrainingShape, device: "HardwareDevice"):
        super().__init__(shape)
        self._device, self._accelerator = device, device.accelerator
        nothing_is_dropped = not any(shape.storage.thresholds)
        self._room = Room(shape.log_share or (1.0 if nothing_is_dropped else FIRST))
        self._counts: dict[str, dict] = {}
        self._used: dict[int, int] = {}  # bytes of each log, all channels together
        self._wasteful = False
        self._map = None
        self._adopt(self._planned())

    def _planned(self) -> Plan:
        shape = self.shape
        return Plan(
            self._accelerator.config,
            shape.network,
            shape.batch,
            shape.steps,
            masked=shape.masked,
            storage=shape.storage,
            share=self._room.share,
            memory_bytes=self._accelerator.transport.memory_bytes,
        )

    def _adopt(self, plan: Plan) -> None:
        """Go over to a plan; weights and velocities come along."""
        base = self._device.place(plan.memory_bytes, self)
        old = self._map.memory.arrays.values() if self._map else ()
        moved = {array.name: self._windows(array) for array in old if array.kind in SURVIVING}
        self.plan, self.base, self._map = plan, base, plan.map
        self._programs = {
            name: self._accelerator.load(program.image(), base + plan.program_addresses[name])
            for name, program in plan.programs.items()
        }
        self._chosen, self._wasteful = plan.programs, False
        for array in plan.map.memory.arrays.values():
            self._write_windows(array, moved.get(array.name, np.zeros(array.index.shape, np.float32)))

    @property
    def size_bytes(self) -> int:
        """Bytes of memory, from `base`."""
        return self.plan.memory_bytes

    def _load(self, parameters, velocities):
        for arrays, entry, speed in zip(self._map.layers, parameters, velocities, strict=True):
            self._write(arrays.columns, entry.weights)
            self._write(arrays.rows, entry.weights)
            self._write(arrays.bias, entry.bias)
            self._write(arrays.velocity, speed.weights)
            self._write(arrays.bias_velocity, speed.bias)

    def _parameters(self):
        return [LayerParameters(self._read(a.columns), self._read(a.bias)) for a in self._map.layers]

    def _velocities(self):
        return [LayerParameters(self._read(a.velocity), self._read(a.bias_velocity)) for a in self._map.layers]

    def _forward(self, x, lengths, h0, c0):
        self._counts, self._inputs = {}, (x.copy(), lengths, h0.copy(), c0.copy())
        if self._wasteful:
            self._adopt(self._planned())
        self._until_it_fits(self._run_forward)
        layers, steps = self._map.layers, self.shape.steps
        y = self._read(layers[-1].h.array)[1:]
        last = [(self._read(a.h.steps(steps, 1))[-1], self._read(a.c.steps(a.c_at(steps), 1))[-1]) for a in layers]
        return Outputs(y, *(np.stack(state) for state in zip(*last, strict=True)))

    def _run_forward(self):
        x, lengths, h0, c0 = self._inputs
        self._choose_passes()
        layers, steps = self._map.layers, self.shape.steps
        self._active = np.arange(steps)[:, None] < lengths[None, :]
        self._write(layers[0].x.array, x)
        if self._map.mask:
            self._write(self._map.mask.array, self._active.astype(np.float32))
        for arrays, h, c in zip(layers, h0, c0, strict=True):
            for sequence, state in ((arrays.h, h), (arrays.c, c)):
                self._write(sequence.steps(0, 1), np.broadcast_to(state, sequence.array.shape))
        for kind, threshold in enumerate(self.shape.storage.thresholds):
            self._accelerator.set_parameter(contract.PARAMETER_THRESHOLDS + kind, threshold)
        self._run("forward")

    def _backward(self, dy, dh, dc):
        self._until_it_fits(self._run_forward, lambda: self._run_backward(dy, dh, dc))

    def _run_backward(self, dy, dh, dc):
        layers = self._map.layers
        self._write(layers[-1].dy.array, dy)
        for arrays, h, c in zip(layers, dh, dc, strict=True):
            self._write(arrays.dh.array, h[None])
            self._write(arrays.dc.array, c[None])
        self._run("backward")

    def _dx(self):
        dx = self._read(self._map.layers[0].dx.array)
        dx[self._skipped[0]] = 0  # skipped cells wrote nothing
        return dx

    def _initial_state_gradients(self):
        states = [[self._read(sequence.array)[0] for sequence in (a.dh, a.dc)] for a in self._map.layers]
        for layer in np.flatnonzero(self._skipped[:, 0]):
            states[layer] = [np.zeros_like(state) for state in states[layer]]
        return tuple(np.stack(state) for state in zip(*states, strict=True))

    def _norm_terms(self):
        layers = self._map.layers
        return [self._read(a.norms) for a in layers], [canonical_rows(self._read(a.bias_gradient)) for a in layers]

    def _gradients(self):
        return [LayerGradients(self._read(a.gradient), self._read(a.bias_gradient)) for a in self._map.layers]

    def _update(self, rule):
        for number, value in (
            (contract.PARAMETER_SCALE, rule.scale),
            (contract.PARAMETER_WEIGHT_DECAY, rule.weight_decay),
            (contract.PARAMETER_MOMENTUM, rule.momentum),
            (contract.PARAMETER_LEARNING_RATE, rule.learning_rate),
        ):
            self._accelerator.set_parameter(number, value)
        self._run("update")

    def _usage(self):
        return [
            Usage.counted(
                x=x,
                h=h,
                delta_kept=deltas.kept(),
                active=self._active,
                skipped=skipped,
                **self._kept(arrays, skipped),
            )
            for arrays, skipped, (x, h, deltas) in zip(self._map.layers, self._skipped, self._broadcast(), strict=True)
        ]

    def _contributions(self):
        return np.stack(
            [contribution_norms(deltas.values(), np.concatenate([x, h], axis=2)) for x, h, deltas in self._broadcast()]
        )

    def _broadcast(self):
        """Read what each layer broadcast, x and the h of the step before; δ is read by who needs it."""
        for arrays, skipped in zip(self._map.layers, self._skipped, strict=True):
            x = self._read(arrays.x.array)[arrays.x_step :]
            deltas = DeltaReader(self._accelerator.config, arrays, skipped, self._windows)
            yield x, self._read(arrays.h.array)[:-1], deltas

    def _kept(self, arrays: LayerArrays, skipped: np.ndarray) -> dict:
        """Count the kept elements of each kind, and the words of beats, that a layer's index tells."""
        if not arrays.storage.compressed:
            elements = int((~skipped).sum()) * self.shape.batch * self.shape.network.hidden_size
            return {"kept": (0,) * len(KINDS), "words": DENSE_TENSORS * elements}
        config = self._accelerator.config
        words = self._windows(arrays.index).view(np.uint32)[:, :, : len(contract.STREAM_INDEX)]
        index = words.reshape(config.channels, self.shape.steps, -1, len(KINDS), len(contract.STREAM_INDEX))[
            :, ~skipped
        ]
        kept = index[..., contract.STREAM_INDEX.index("kept")].sum((0, 1, 2))
        beats = index[..., contract.STREAM_INDEX.index("beats")].sum()
        return {"kept": tuple(int(count) for count in kept), "words": int(beats) * config.beat_words}

    def _choose_passes(self) -> None:
        """Have the programs in memory that skip the cells of this forward pass."""
        for name, program in zip(("forward", "backward"), self.plan.passes(self._skipped), strict=True):
            if program is not self._chosen[name]:
                address = self.base + self.plan.program_addresses[name]
                self._programs[name] = self._accelerator.load(program.image(), address)
                self._chosen[name] = program

    def _memory(self):
        size = self._map.memory.vector_bytes * self._accelerator.config.channels
        return {
            "reserved": self.plan.footprint(),
            "log": sum(log.array.vectors for log in self._map.logs if log.number == LOCAL_GRADIENTS) * size,
            "log_used": self._used.get(LOCAL_GRADIENTS, 0),
            "replays": self._room.replays,
        }

    def _counters(self):
        cycles = {name: counts["cycles"] for name, counts in self._counts.items()}
        return _add(self._counts.values()) | {"passes": cycles}

    def _run(self, name: str) -> None:
        self._ran = self._chosen[name]
        self._accelerator.set_windows(self.base, self._map.memory.window_bytes)
        self._accelerator.set_architecture(self.shape.architecture)
        self._accelerator.run(self._programs[name])
        self._counts[name] = self._accelerator.counters()
        self._learn_room()

    def _until_it_fits(self, *passes: Callable[[], None]) -> None:
        """Do the last of some passes; where a log is too small for it, do all of them with a larger one."""
        missing = passes[-1:]
        while True:
            try:
                for run in missing:
                    run()
                return
            except LogFullError as error:
                self._make_room(error)
                missing = passes

    def _make_room(self, error: LogFullError) -> None:
        """Plan with more room for the log that was full."""
        number, written = streams_before(self._ran.words, error.instruction)
        given = self._map.log(number).share
        if given >= 1:
            raise error
        self._room.grow(number, given, written)
        self._adopt(self._planned())

    def _learn_room(self) -> None:
        """Note how far the program that ran has filled its logs, by the last stream in each."""
        config = self._accelerator.config
        for number, index in self._ran.ends.items():
            log = self._map.log(number)
            used = self._end_of(index) / config.vector_beats - log.array.first
            self._used[number] = int(used * self._map.memory.vector_bytes) * config.channels
            if not self._skipped.any():  # a pass that skips cells tells little of one that does not
                self._wasteful |= self._room.note(number, log.share, used / log.worst)

    def _end_of(self, index: Place) -> int:
        """Give the largest beat, over channels, at which the stream of an index ends."""
        words = self._windows(index.array.part(index.vector, 1)).view(np.uint32)[:, 0]
        start, beats = (words[:, contract.STREAM_INDEX.index(name)] for name in ("start", "beats"))
        return int((start + beats).max())

    def _addresses(self, array: Array):
        memory = self._map.memory
        start = self.base + array.first * memory.vector_bytes
        return [start + n * memory.window_bytes for n in range(self._accelerator.config.channels)]

    def _write(self, array: Array, values: np.ndarray) -> None:
        self._write_windows(array, pack(array, values))

    def _write_windows(self, array: Array, words: np.ndarray) -> None:
        for address, window in zip(self._addresses(array), words, strict=True):
            self._accelerator.transport.write_memory(address, np.ascontiguousarray(window))

    def _read(self, array: Array) -> np.ndarray:
        return unpack(array, self._windows(array))

    def _windows(self, array: Array) -> np.ndarray:
        """Read an array as the channels hold it: float32, (channels, vectors, lanes)."""
        size = array.vectors * self._map.memory.vector_bytes
        windows = [self._accelerator.transport.read_memory(address, size) for address in self._addresses(array)]
        return np.stack(windows).view(np.float32).reshape(array.index.shape)


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
        session = HardwareSession(shape, self)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        """Let go of the machine."""
        self.accelerator.transport.close()

    def place(self, needed: int, mover: HardwareSession) -> int:
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


def _add(counts) -> dict:
    """Add nested dicts of numbers of one shape."""
    counts = list(counts)
    if not counts:
        return {"cycles": 0}
    return {
        key: _add(entry[key] for entry in counts) if isinstance(value, dict) else sum(entry[key] for entry in counts)
        for key, value in counts[0].items()
    }
