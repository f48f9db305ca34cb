"""Sessions on a machine: what the host's arrays are in its memory, and which program runs when."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from etalstm.device.api import Session
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.faults import LogFullError
from etalstm.device.machine.intermediates import Intermediates, OutgrownError, Spill
from etalstm.device.machine.measures import Measures
from etalstm.device.machine.planning import first_room, plan_session
from etalstm.device.machine.programs import Find, ProgramMemory, roomy
from etalstm.device.machine.windows import Scrubber, Windows
from etalstm.device.results import add_counts, all_counts
from etalstm.device.shape import TrainingShape
from etalstm.errors import CallOrderError, DeviceError
from etalstm.formats.sealed_stream import network_id
from etalstm.network.shape import LayerGradients, LayerParameters, canonical_rows
from etalstm.network.shared_tokens import SharedTokens
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.memory_map import Array, Placement
from etalstm.plan.memory.operands import LOCAL_GRADIENTS
from etalstm.plan.memory.sent import same_programs, threshold_parameters
from etalstm.plan.memory.stored import REGIONS
from etalstm.plan.passes.weights import needed_scale
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import streams_before
from etalstm_hw import contract
from etalstm_hw.contract import Traffic

SURVIVING = ("weights", "optimizer")  # kinds of arrays that a new plan takes over


class HardwareSession(Session):
    """A session whose passes are programs of an :class:`Accelerator`.

    A pass that finds a log too small has changed no weight: a plan with a larger log takes over weights and velocities,
    and the pass is run again.

    A pass of fewer steps has programs of its own, which use the same arrays: see :class:`ProgramMemory`.

    Parameters
    ----------
    place : function
        From a plan and the session to memory that no other session uses; :class:`PlanError` if there is none, now or
        when a log must grow; then nothing is lost.
    parts : int
        Parts of a larger batch that the session works on one after the other, see :mod:`etalstm.device.machine.parts`.

    Members
    -------
    plan, placement : the session's programs and arrays, and its range of the memory
    windows : Windows, the plan's arrays there
    spill : Spill, the intermediates of the last forward pass
    """

    reduces = takes_intermediates = True

    def __init__(
        self, shape: TrainingShape, accelerator: Accelerator, place: Callable[[Plan, "HardwareSession"], Placement],
        find: Find, parts: int = 1,
    ):  # fmt: skip
        super().__init__(shape)
        self._accelerator, self._place, self._parts = accelerator, place, parts
        self._programs = ProgramMemory(accelerator, find, shape.memory_budget)
        self._room = first_room(shape)
        self._counts: dict[str, dict] = {}
        self._program_room: dict[str, int] = {}  # what programs are given at least
        self._from_host: tuple | None = None  # what the host gave in place of a forward pass
        self._scrubber = Scrubber()
        self._whole = False  # the memory has all weights that were loaded or updated
        self._moving = False  # a change to another plan has begun and not ended
        plan = self._planned(self.shape)
        self._enter(plan, place(plan, self), {}, None)

    def _planned(self, shape: TrainingShape, **options: Any) -> Plan:
        """Plan for a shape; `options` are further ones of :class:`Plan`."""
        options |= {"program_room": self._program_room, "parts": self._parts}
        return plan_session(self._accelerator, shape, self._room, **options)

    def _adopt(self, plan: Plan) -> None:
        """Go over to another plan; weights and velocities come along.

        If the device fails on the way, they are lost: the memory of both plans may be the same.
        """
        self._programs.leave()
        placement = self._place(plan, self)
        old = self._map.memory.arrays.values()
        moved = {a.name: self.windows.read(a) for a in old if a.kind in SURVIVING and not a.raw}
        whole, self._whole, self._moving = self._whole, False, True
        self._enter(plan, placement, moved, self.windows)
        if whole:
            self._finish_weights()
        self._whole, self._moving = whole, False

    def _enter(self, plan: Plan, placement: Placement, moved: Mapping[str, np.ndarray], before: Windows | None) -> None:
        """Use a plan from now on; `moved` are the arrays that come from the windows `before`, all others are zeros."""
        self.plan, self.placement, self._map = plan, placement, plan.map
        self.windows = Windows(self._accelerator.transport, plan.map.memory, placement, before)
        self._programs.adopt(plan, placement.programs)
        self._room.wasteful = False
        for name, array in plan.map.memory.arrays.items():
            if name in moved:
                self.windows.write(array, moved[name])
            elif array.zeroed or not array.raw:  # nothing else is read there that was not written before
                self.windows.write_words(array, np.zeros(array.words, np.float32))
        self._scrubber.moved(plan.map.products, moved)

    @property
    def addresses(self) -> list[range]:
        """All memory that the session uses."""
        return [*self.placement.parts, *self._programs.beside]

    def _store_as(self, shape):
        if shape.execution.storage.policies != self.shape.execution.storage.policies:
            self._adopt(self._planned(shape))

    def _send_as(self, shape):
        if not same_programs(self.shape.execution.delta_inputs, shape.execution.delta_inputs, shape.network.layers):
            self._adopt(self._planned(shape))

    def _load(self, parameters, velocities):
        self._whole = False
        if self._moving:
            self._enter_anew()
        for arrays, entry, speed in zip(self._map.products, parameters, velocities, strict=True):
            state = ((arrays.bias, entry.bias), (arrays.velocity, speed.weights), (arrays.bias_velocity, speed.bias))
            for array, values in (*((matrix, entry.weights) for matrix in arrays.matrices), *state):
                self.windows.write(array, values)
                self._scrubber.loaded(array, values)
        self._counts |= self._finish_weights()
        self._whole = True

    def _enter_anew(self) -> None:
        """Use a plan of the session's shape, with empty memory."""
        plan = self._planned(self.shape)
        self._enter(plan, self._place(plan, self), {}, None)
        self._moving = False

    def _finish_weights(self) -> dict[str, dict]:
        """Have the machine make what passes read besides the weights; give what its programs counted."""
        return {}

    def _require_weights(self, call: str) -> None:
        if not self._whole:
            raise CallOrderError(f"{call}() needs load() first")

    def _parameters(self):
        self._require_weights("parameters")
        return self._read_matrices(lambda arrays: (arrays.weights, arrays.bias))

    def _velocities(self):
        self._require_weights("velocities")
        return self._read_matrices(lambda arrays: (arrays.velocity, arrays.bias_velocity))

    def _read_matrices(self, of: Callable[[LayerArrays], tuple[Array, Array]]) -> list[LayerParameters]:
        read, matrices = self.windows.read, [(of(each), each.tiling.gates) for each in self._map.products]
        return [LayerParameters(read(weights), read(bias), gates) for (weights, bias), gates in matrices]

    def _forward(self, x, lengths, h0, c0):
        self._require_weights("forward")
        self._counts, self._inputs = {}, (x.copy(), lengths, h0.copy(), c0.copy())
        self.windows.count_anew()
        if self._room.wasteful:
            self._adopt(self._planned(self.shape))
        self._from_host = None
        self._until_it_fits(self._run_forward)
        return self._measures().outputs(lengths)

    def _encode(self, layers, skipped):
        self._refuse_dense()
        streams = self._streams(skipped)
        return chain.from_iterable(streams.encode(segment, layers) for segment in self._map.stored.segments)

    def _load_intermediates(self, x, h, streams, lengths, sent):
        self._require_weights("load_intermediates")
        self._refuse_dense()
        self._from_host = x, h, list(streams), lengths, sent
        self._counts = {}
        self.windows.count_anew()
        self._leave_intermediates()

    def _leave_intermediates(self) -> None:
        """Have the intermediates in memory: run the forward pass, or write those that the host gave."""
        if self._from_host is None:
            self._run_forward()
            return
        while True:
            try:
                self._place_intermediates(*self._from_host)
                return
            except OutgrownError as error:
                if self._room.share(LOCAL_GRADIENTS) >= 1:  # the room of the worst case
                    raise
                self._room.give(LOCAL_GRADIENTS, error.needed)
                self._adopt(self._planned(self.shape))

    def _place_intermediates(self, x, h, sealed, lengths, sent) -> None:
        self._prepare(x, lengths)
        for arrays, states in zip(self._map.layers, h, strict=True):
            self._write_input(arrays.h.first(len(states)), states, arrays.number)
        for arrays, values in zip(self._map.layers if sent else [], sent, strict=True):
            each = np.split(values, [arrays.operands_sent[0].partition.size], axis=2) if arrays.operands_sent else []
            for operand, of_operand in zip(arrays.operands_sent, each, strict=True):
                self._write_input(operand.sent.first(len(x)), of_operand, arrays.number)
        self.spill.take(sealed)

    def _refuse_dense(self) -> None:
        for number, arrays in enumerate(self._map.layers):
            if not arrays.storage.compressed:
                raise DeviceError(f"layer {number} keeps its gates, not local gradients: its storage must not be dense")

    def _streams(self, skipped: np.ndarray) -> Intermediates:
        shape = self.shape
        identity = network_id(shape.network, shape.batch, skipped.shape[1], shape.execution.slices)
        return Intermediates(self._map, self.windows, identity, skipped)

    def _prepare(self, x, lengths) -> None:
        """Begin a forward pass: its programs, its input, nothing stored yet."""
        self._choose_passes()
        self._scrubber.begin_pass()
        self._active = np.arange(len(x))[:, None] < lengths[None, :]
        if self._map.mask:
            self._write_input(self._map.mask.first(len(x)), self._active.astype(np.float32), None)
            x = np.where(self._active[:, :, None], x, np.float32(0))  # no product is spent on padding
        self._write_input(self._map.x.first(len(x)), x, 0)
        self._room.used.clear()
        self.spill = Spill(self._map.stored.segments, self._streams(self._skipped))

    def _write_input(self, array: Array, values: np.ndarray, layer: int | None) -> None:
        """Write an array, of a layer or of all, that no program of the passes overwrites."""
        self.windows.write(array, values)
        self._scrubber.wrote(array, values, layer)

    def _run_forward(self):
        x, lengths, h0, c0 = self._inputs
        self._prepare(x, lengths)
        if self._shared:
            self._write_tokens()
        for arrays, h, c in zip(self._map.layers, h0, c0, strict=True):
            self._write_input(arrays.h.step(0), h, arrays.number)
            self.windows.write(arrays.c.step(0), c)
        for kind, threshold in enumerate(self.shape.execution.storage.of_kinds):
            self._accelerator.set_parameter(contract.PARAMETER_THRESHOLDS + kind, threshold)
        self._set_input_thresholds()
        count = len(self._map.stored.segments)
        self._run_pass("forward", count, range(count), self.spill.during_forward)

    def _set_input_thresholds(self) -> None:
        delta_inputs, layers = self.shape.execution.delta_inputs, self.shape.network.layers
        for threshold, numbers in threshold_parameters(delta_inputs, layers).items():
            self._accelerator.set_parameter(numbers.threshold, threshold)
            if numbers.scale is not None:
                self._accelerator.set_parameter(numbers.scale, needed_scale(threshold))

    def _write_tokens(self) -> None:
        """Give each group of channels the distinct tokens of its sequences, and which of them each step has."""
        arrays, division = self._map.entry.tokens, self._map.division
        assert arrays, "a shape that shares tokens has arrays for them"
        x = np.zeros(arrays.x.array.shape, np.float32)
        of_steps = arrays.chosen.first(self._steps)
        chosen = np.zeros(of_steps.shape, np.float32)
        for group, of_group in enumerate(self._shared_by_groups()):
            x[group, : of_group.count] = of_group.x
            sequences = division.sequences(group)
            step, place = np.nonzero(of_group.numbers >= 0)
            chosen[step, sequences[place], of_group.numbers[step, place]] = 1
        self._write_input(arrays.x.array, x, 0)
        self._write_input(of_steps, chosen, 0)

    def _shared_by_groups(self) -> list[SharedTokens]:
        shared, division = self._shared, self._map.division
        return [shared.of_sequences(division.sequences(group)) for group in range(division.count)] if shared else []

    def _shared_scalars(self):
        return sum(of_group.scalars for of_group in self._shared_by_groups())

    def _backward(self, dy, dh, dc, delta_threshold):
        self._unreported = set(range(self.shape.network.layers))
        self._until_it_fits(self._leave_intermediates, lambda: self._run_backward(dy, dh, dc, delta_threshold))
        self._report_gradients()

    def _run_backward(self, dy, dh, dc, delta_threshold):
        self._accelerator.set_parameter(contract.PARAMETER_DELTA_THRESHOLD, delta_threshold)
        self._accelerator.set_parameter(contract.PARAMETER_NEEDED_SCALE, needed_scale(delta_threshold))
        layers = self._map.layers
        self._write_input(layers[-1].dy.first(len(dy)), dy, layers[-1].number)
        for arrays, h, c in zip(layers, dh, dc, strict=True):
            self.windows.write(arrays.dh.array, h[None])
            self.windows.write(arrays.dc.array, c[None])
        count = len(layers) if self.plan.layers_apart else len(self._map.stored.segments)
        self._run_pass("backward", count, reversed(range(count)), self._during_backward)

    def _during_backward(self, number: int) -> None:
        if self.plan.layers_apart:
            self._report_above(number)
        else:
            self.spill.during_backward(number)

    def _report_gradients(self):
        self._report_above(-1)

    def _report_above(self, layer: int) -> None:
        """Give the gradients of all layers above `layer` to :attr:`when_whole`.

        Each layer's are given once, even if the pass is run again.
        """
        if self.when_whole is None:
            return
        for number in sorted((number for number in self._unreported if number > layer), reverse=True):
            self._unreported.remove(number)
            products = self._map.layers[number].products
            for position, arrays in enumerate(products, number * len(products)):
                self.when_whole(position, self._gradients_of(arrays))

    def _dx(self):
        return self._measures().dx()

    def _initial_state_gradients(self):
        return self._measures().initial_state_gradients()

    def _norm_terms(self):
        products, read = self._map.products, self.windows.read
        biases = [canonical_rows(read(each.bias_gradient), each.tiling.gates) for each in products]
        return [read(each.norms) for each in products], biases

    def _gradients(self):
        return list(map(self._gradients_of, self._map.products))

    def _gradients_of(self, arrays: LayerArrays) -> LayerGradients:
        return LayerGradients(self.windows.read(arrays.gradient), self.windows.read(arrays.bias_gradient))

    def _take_gradients(self, gradients):
        for arrays, taken in zip(self._map.products, gradients, strict=True):
            self.windows.write(arrays.gradient, taken.weights)
            self.windows.write(arrays.bias_gradient, taken.bias)

    def _update(self, rule):
        for name in ("scale", "weight_decay", "momentum"):
            self._accelerator.set_parameter(getattr(contract, f"PARAMETER_{name.upper()}"), getattr(rule, name))
        self._accelerator.set_parameter(contract.PARAMETER_MINUS_LEARNING_RATE, -rule.learning_rate)
        self._scrubber.updated()
        self._whole = False
        self._counts["update"] = self._run("update")
        self._whole = True

    def _scrub(self):
        self._require_weights("scrub")
        self._scrubber.compare(self._map.products, self.windows)

    def accumulate(self, name: str) -> None:
        """Put gradients aside, add or restore them: run ``keep``, ``add`` or ``restore`` of :attr:`Plan.programs`."""
        self._counts[name] = self._run(name)

    def count_streams(self) -> int:
        """Count the streams that :meth:`encode` gives for the cells that are not skipped."""
        streams = self._streams(self._skipped)
        return sum(map(streams.count, self._map.stored.segments))

    def take_counts(self) -> dict[str, dict]:
        """Give what each program has counted since the last forward pass or call, by its name, and forget it."""
        counts, self._counts = self._counts, {}
        return counts

    def _usage(self):
        return self._measures().usage(self._active)

    def _factors(self):
        return self._measures().factors()

    def _measures(self) -> Measures:
        return Measures(self._map, self.windows, self._skipped)

    def _choose_passes(self) -> None:
        """Have the programs of this forward pass in memory; where they are too long, plan again."""
        shares = self._shared is not None
        while longer := self._programs.bring(self._steps, Plan.named(*self.plan.passes(self._skipped, shares))):
            self._program_room |= roomy(longer)
            self._adopt(self._planned(self.shape))  # maybe with other segments, so other programs

    def _memory(self):
        reserved, size = self.plan.footprint(), self._map.memory.vector_bytes * self._accelerator.config.channels
        logs = [segment.log for segment in self._map.stored.segments[:REGIONS]]
        return {
            "reserved": reserved | {"program": reserved["program"] + self._programs.bytes_beside},
            "log": sum(log.array.vectors for log in logs if log) * size,
            "log_used": int(self._room.used.get(LOCAL_GRADIENTS, 0) * size),
            "segments": len(self._map.stored.segments),
            "host": self.windows.moved,
            "replays": self._room.replays,
        }

    def _counters(self):
        return all_counts(self._counts)

    def _run_pass(self, name: str, count: int, numbers: Iterable[int], meanwhile: Callable[[int], None]) -> None:
        """Run the programs of a pass, and do what the host has to do while each of them runs."""
        counts = []
        self._room.begin_pass()
        for number in numbers:
            counts.append(self._run(f"{name} {number}" if count > 1 else name, partial(meanwhile, number)))
        self._counts[name] = add_counts(counts)
        self._room.end_pass(whole=self._steps == self.shape.steps and not self._skipped.any())

    def _run(self, name: str, meanwhile: Callable[[], None] = lambda: None) -> dict:
        """Run a program; give what it counted."""
        self._ran, loaded = self._programs[name]
        self._accelerator.set_windows(self.placement.base, self.placement.stride, self.placement.window_bytes)
        self._accelerator.set_groups(self.plan.groups)
        self._accelerator.set_architecture(self.shape.execution.architecture)
        with self._accelerator.running(loaded):
            meanwhile()
        for log, index in self._ran.ends.items():
            self._room.use(log, self.windows.end_of(index) / self._accelerator.config.vector_beats)
        counts = self._accelerator.counters()
        spared = self._ran.volume.read_bytes[Traffic.WEIGHTS] - counts["read_bytes"]["weights"]
        return counts | {"spared_bytes": {"weights": spared}}

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
        given = next(log.share for log in self._ran.ends if log.number == number)
        if given >= 1:
            raise error
        self._room.grow(number, given, written)
        self._adopt(self._planned(self.shape))
