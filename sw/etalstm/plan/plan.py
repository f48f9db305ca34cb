"""The plan of a network on a machine: memory map, programs, and what they cost."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from etalstm.errors import PlanError
from etalstm.network.cells.cell import Cell
from etalstm.network.execution import Execution
from etalstm.network.shape import WORD_BYTES, NetworkShape
from etalstm.network.slices import Parts
from etalstm.plan.integers.backward import IntegerBackwardLayer
from etalstm.plan.integers.forward import IntegerForwardLayer
from etalstm.plan.integers.gradient import IntegerGradientLayer
from etalstm.plan.integers.update import IntegerUpdateLayer
from etalstm.plan.memory.allocation import machine_of_group
from etalstm.plan.memory.memory_map import Placement, place, region_bytes
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.stored import Segment, up_to, whole
from etalstm.plan.passes.accumulate import AccumulateLayer, Accumulation, TotalLayer
from etalstm.plan.passes.backward import BackwardLayer
from etalstm.plan.passes.forward import ForwardLayer
from etalstm.plan.passes.gradient import GradientLayer
from etalstm.plan.passes.update import SharedUpdate, UpdateLayer
from etalstm.plan.passes.vectors import NO_STEPS, Steps
from etalstm.plan.program.emit import Emitter
from etalstm.plan.program.program import Program
from etalstm_hw import contract
from etalstm_hw.config import Config

WEIGHT_COPIES = 4  # at least: weights by rows and by columns, velocities, gradients
_REMEMBERED_PASSES = 256  # each pattern of skipped cells, and each number of steps, has two


REFRESH = "refresh"
"""The program that follows weights which the host has written: it is no part of an iteration."""

FINISH = "finish"
"""The program that follows sums of gradients which the host has written."""


class Plan:
    """Everything that a device needs to train a network.

    Parameters
    ----------
    execution : Execution
        How the network is computed. On an architecture that skips zeros, weights that only zeros would meet need not be
        read.
    masked : bool                    sequences may be shorter than `steps`
    share, segments, every_delta
        Room of the logs, which cells share a region of memory, and which δ stay: see :class:`NetworkMap`.
    density : float                  share of elements that compressed streams are taken to keep, for :meth:`traffic`
    memory_bytes : int, optional     memory of the device
    program_room : dict, optional    bytes that programs are given at least, by name
    parts : int                      parts of a larger batch that follow one another, of which this is one
    groups : int                     groups of channels that work on equal parts of the batch at once
    cell : Cell, optional            of all layers; default: the network's
    layers_apart : bool              the backward pass has a program for each layer, where there is one segment
    gradient_sums : bool
        With integers only: the backward pass leaves the sums of the gradients for the host, which writes others in
        their place.
    together : bool                  with integers, the first layer's x is within ±1: a gate has one sum with x and h

    Raises ``PlanError`` if the network does not fit; the message says how much is needed and had.
    Raises ``ValueError`` if the channels cannot be divided into so many groups, or tokens are shared and the network's
    cell is no LSTM.
    """

    def __init__(
        self, config: Config, network: NetworkShape, batch: int, steps: int,
        execution: Execution = Execution(), *,  # noqa: B008  frozen
        masked: bool = False, share: Callable[[int], float] = whole, segments: list[Segment] | None = None,
        density: float = 1.0, memory_bytes: int | None = None,
        program_room: Mapping[str, int] = MappingProxyType({}), every_delta: bool = True, parts: int = 1,
        groups: int = 1, cell: Cell | None = None, layers_apart: bool = False, gradient_sums: bool = False,
        together: bool = False,
    ):  # fmt: skip
        self._had, cell = memory_bytes, cell or network.declared
        self._check_weights(config, network, cell)
        if execution.shared_tokens is not None:
            network.require_lstm("shared tokens")
        self.config, self.network, self._density, self._skips = config, network, density, execution.architecture.skips
        # Sums of integers have no order: a slice for each group has the bits of many.
        slices = groups if config.integers else execution.slices
        self.groups, division = groups, Parts(batch, slices, groups)
        self._gradient_sums = gradient_sums
        self.layers_apart = layers_apart and network.layers > 1 and len(segments or [()]) == 1
        self.map = NetworkMap(
            machine_of_group(config, groups), network, division, steps, execution, masked, share, segments, every_delta,
            parts, cell, self.layers_apart, gradient_sums, together,
        )  # fmt: skip
        self._room = dict(program_room)
        self._check_fits(self.windows_bytes)
        self._check_addresses()
        self._passes: dict[Hashable, list[Program]] = {}

    @cached_property
    def programs(self) -> dict[str, Program]:
        """All programs by name. They are made when they are first asked for.

        A pass for each segment, and ``update``. Where the batch has parts, also: ``keep 0`` puts the gradients aside,
        ``add 0`` adds those that were put aside to the present ones, ``restore 0`` brings them back. Each number has
        arrays of its own. With integers ``refresh`` makes integers of the weights that the host has written, and with
        `gradient_sums` ``finish`` makes gradients and norms of the sums that it has written.

        Raises ``PlanError`` if a layer does not fit the lane memories, or the programs do not fit the memory.
        """
        nothing = np.zeros((self.network.layers, self.map.steps), bool)
        programs = self.named(*self.passes(nothing)) | {"update": self._program(self._update)} | self._accumulation()
        if self.config.integers:
            programs[REFRESH] = self._program(self._refresh)
        if self._gradient_sums:
            programs[FINISH] = self._program(self._finish)
        self._check_fits(self.windows_bytes + region_bytes(self._extents(programs)))
        return programs

    def _accumulation(self) -> dict[str, Program]:
        programs = {}
        for number in range(len(self.map.layers[0].partial)):
            for how in Accumulation:
                programs[f"{how.value} {number}"] = self._program(self._accumulate, number, how)
        return programs

    def _accumulate(self, emitter: Emitter, number: int, how: Accumulation) -> None:
        for arrays in self.map.products:
            AccumulateLayer(self.config, emitter, arrays, number, how).emit()

    @staticmethod
    def named(forward: list[Program], backward: list[Program]) -> dict[str, Program]:
        """Name the passes' programs: ``forward`` and ``backward``, with a number if there are several."""
        passes = {"forward": forward, "backward": backward}
        return {
            name if len(programs) == 1 else f"{name} {number}": program
            for name, programs in passes.items()
            for number, program in enumerate(programs)
        }

    @cached_property
    def program_extents(self) -> dict[str, int]:
        """Bytes that each program has room for; one that skips cells may be longer than one that skips none."""
        return self._extents(self.programs)

    def _extents(self, programs: dict[str, Program]) -> dict[str, int]:
        return {name: max(program.bytes, self._room.get(name, 0)) for name, program in programs.items()}

    @property
    def program_bytes(self) -> int:
        """Bytes of all programs."""
        return sum(program.bytes for program in self.programs.values())

    @property
    def windows_bytes(self) -> int:
        """Bytes of memory that the windows take."""
        return self.map.memory.window_bytes * self.config.channels

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that the windows and the programs take."""
        return self.windows_bytes + region_bytes(self.program_extents)

    def place(self, memory_bytes: int | None = None, taken: Sequence[range] = ()) -> Placement | None:
        """Find room for windows and programs: see :func:`etalstm.plan.memory.memory_map.place`."""
        sizes = self.map.memory.window_bytes, region_bytes(self.program_extents)
        return place(self.config, *sizes, memory_bytes=memory_bytes, taken=taken)

    def footprint(self) -> dict[str, int]:
        """Bytes of memory by kind, padding included."""
        return self.map.memory.footprint() | {"program": self.program_bytes}

    def traffic(self) -> dict[str, dict[str, int]]:
        """Bytes that one iteration moves between memory and machine, by kind, read and written.

        Compressed streams count with all of their elements: how many they drop is not known before. All rows count of
        weights that do not stay in the lanes: up to :attr:`spareable_bytes` of them may not be needed.
        """
        kinds = {
            kind.name.lower(): {
                "read": sum(program.volume.read_bytes[kind] for program in self.programs.values()),
                "written": sum(program.volume.write_bytes[kind] for program in self.programs.values()),
            }
            for kind in contract.Traffic
        }
        return kinds | {"program": {"read": self.program_bytes, "written": 0}}

    @property
    def spareable_bytes(self) -> int:
        """Bytes of weights in :meth:`traffic` that need not be read if all sequences that share a load send zeros."""
        return sum(program.volume.spareable_bytes for program in self.programs.values())

    def product_programs(self) -> dict[str, Program]:
        """Make programs of the top layer's two products with δ alone: what a bench of the broadcast runs."""
        top = self.map, self.map.layers[-1]
        return {
            "backward": self._program(lambda emitter: BackwardLayer(self.config, emitter, *top).emit_products()),
            "gradient": self._program(lambda emitter: GradientLayer(self.config, emitter, *top).emit()),
        }

    def stream_programs(self) -> dict[str, Program]:
        """Make programs of the bottom layer's products with x, of its streams, and of both, for a bench of the codec.

        The layer's storage must be compressed.
        """

        def emit(emitter: Emitter, products: bool, streams: bool) -> None:
            layer = ForwardLayer(self.config, emitter, self.map, self.map.layers[0])
            layer.emit_parts(range(self.map.steps), products=products, streams=streams)

        parts = {"products": (True, False), "streams": (False, True), "both": (True, True)}
        return {name: self._program(emit, *of_name) for name, of_name in parts.items()}

    def passes(self, skipped: np.ndarray, shares: bool = True) -> tuple[list[Program], list[Program]]:
        """Give the programs of forward and backward pass that leave out some cells' backward part.

        There is one for each segment. Where layers are apart, the backward pass has one for each layer.

        What is left between skipped cells is written run by run, so they may be longer than those that skip nothing.
        The last few are remembered.

        `skipped` is bool, (L, T). T may be less than the steps of the plan: the passes then run the first T of these.
        `shares`: the batch has no more distinct tokens than the plan has room for. Of no effect where none are shared.
        """
        steps = skipped.shape[1]
        pattern = steps, skipped.tobytes()
        shares = shares and any(product.shares_tokens for product in self.map.layers[0].products)
        network, cells = self.map.of_fewer_steps(steps), [frozenset(np.flatnonzero(of).tolist()) for of in skipped]
        segments = [up_to(segment.pieces, steps) for segment in self.map.stored.segments]
        forward = self._remembered(
            (pattern, shares),
            lambda: [self._program(self._forward, network, segment, cells, shares) for segment in segments],
        )
        apart = [(piece,) for piece in segments[0]] if self.layers_apart else segments
        return forward, self._remembered(
            pattern, lambda: [self._program(self._backward, network, segment, cells) for segment in apart]
        )

    def _remembered(self, key: Hashable, make: Callable[[], list[Program]]) -> list[Program]:
        if key not in self._passes:
            if len(self._passes) >= _REMEMBERED_PASSES:
                del self._passes[next(iter(self._passes))]
            self._passes[key] = make()
        return self._passes[key]

    def _forward(
        self, emitter: Emitter, network: NetworkMap, segment: Segment, skipped: list[Steps], shares: bool
    ) -> None:
        for piece in segment:
            layer = network.layers[piece.layer]
            how = skipped[piece.layer], shares, self._skips
            make = IntegerForwardLayer if self.config.integers else ForwardLayer
            make(self.config, emitter, network, layer, *how).emit(piece.steps)

    def _backward(self, emitter: Emitter, network: NetworkMap, segment: Segment, skipped: list[Steps]) -> None:
        """Emit a segment's backward pass, and the weights' gradient of the layers whose first step it has."""
        for piece in reversed(segment):
            layer, steps = network.layers[piece.layer], skipped[piece.layer]
            above = skipped[piece.layer + 1] if piece.layer + 1 < len(skipped) else NO_STEPS
            make = IntegerBackwardLayer if self.config.integers else BackwardLayer
            make(self.config, emitter, network, layer, steps, above, self._skips).emit(piece.steps)
            if self.config.integers:
                IntegerGradientLayer(self.config, emitter, network, layer, steps).emit()
            elif piece.steps.start == 0:
                for arrays in layer.products:
                    gradient = GradientLayer(self.config, emitter, network, arrays, steps)
                    if self.groups > 1:
                        TotalLayer(self.config, emitter, arrays).emit_behind(gradient.column_spans())
                    else:
                        gradient.emit()

    def _update(self, emitter: Emitter) -> None:
        if self.groups > 1 and not self.config.integers:
            SharedUpdate(self.config, emitter, self.map.products).emit()
        else:
            update = IntegerUpdateLayer if self.config.integers else UpdateLayer
            for arrays in self.map.products:
                update(self.config, emitter, arrays).emit()

    def _refresh(self, emitter: Emitter) -> None:
        for arrays in self.map.products:
            IntegerUpdateLayer(self.config, emitter, arrays).refresh()

    def _finish(self, emitter: Emitter) -> None:
        for arrays in self.map.products:
            IntegerGradientLayer(self.config, emitter, self.map, arrays).finish()

    def _program(self, emit: Callable[..., None], *arguments: Any) -> Program:
        """Make a program of what `emit` appends, which takes an emitter and the arguments."""
        program = Program(self.config, self._density, self.groups)
        emit(Emitter(self.config, program), *arguments)
        program.halt()
        return program

    def _check_addresses(self) -> None:
        beats, most = self.map.memory.window_bytes // self.config.beat_bytes, 1 << contract.ADDRESS_BITS
        if beats > most:
            raise PlanError(
                f"each channel's window takes {beats:,} beats, an address counts {most:,}: fewer sequences or steps, "
                "compressed storage or a memory budget take less"
            )

    def _check_weights(self, config: Config, network: NetworkShape, cell: Cell) -> None:
        """Refuse a network whose weights alone do not fit, before any layer is laid out."""
        needed = WEIGHT_COPIES * WORD_BYTES * network.weights(cell)
        there = 1 << config.address_bits if self._had is None else self._had
        if needed > there:
            raise PlanError(
                f"weights, velocities and gradients alone need {needed:,} bytes of memory, the device has {there:,}"
            )

    def _check_fits(self, needed: int) -> None:
        if self._had is not None and needed > self._had:
            raise PlanError(f"the network needs {needed:,} bytes of memory, the device has {self._had:,}")
