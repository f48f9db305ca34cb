"""What the cycle model is compared on: chosen configurations, and random ones of all sizes and options."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from etalstm.device.shape import TrainingShape
from etalstm.network.architecture import ARCHITECTURES, SWING
from etalstm.network.arithmetic import INT8
from etalstm.network.cells import CELLS
from etalstm.network.cells.hlstm import HLSTM
from etalstm.network.cells.lstm import LSTM
from etalstm.network.delta_inputs import input_thresholds_text
from etalstm.network.execution import BF16, FLOAT32, Execution
from etalstm.network.shape import NetworkShape, operations
from etalstm.network.storage import DENSE, POLICIES, thresholds_text


@dataclass(frozen=True)
class Configuration:
    """A machine, and a training iteration on it."""

    name: str
    preset: str  # configuration of the machine
    inputs: int
    hidden: int
    layers: int
    batch: int
    steps: int
    # With shared tokens, x has the vectors of so many tokens. Slices let the channels work in groups.
    execution: Execution = field(default_factory=Execution)
    masked: bool = False  # sequences have random lengths
    delta_threshold: float = 0.0  # elements of δ below it are dropped
    budget: float = 1.0  # memory budget over the memory that the network needs; below 1 cells spill
    seed: int = 1
    kept_cells: float = 1.0  # share of the cells that are not skipped, see :func:`etalstm.model.measured.early_cells`
    cell: str = LSTM.name

    @property
    def shape(self) -> TrainingShape:
        """The shape of the training session."""
        network = NetworkShape(self.inputs, self.hidden, self.layers, self.cell)
        return TrainingShape(network, self.batch, self.steps, self.execution, masked=self.masked)

    @property
    def choices(self) -> dict[str, Any]:
        """What else is chosen than preset and sizes, by name."""
        execution = self.execution
        return {
            "storage": execution.storage.policy,
            "theta": thresholds_text(execution.storage.thresholds),
            "input_threshold": input_thresholds_text(execution.delta_inputs.thresholds),
            "refresh": execution.delta_inputs.refresh,
            "slices": execution.slices,
            "weight_format": execution.weight_format,
            "shared_tokens": execution.shared_tokens,
            "architecture": execution.architecture.name,
            "arithmetic": execution.arithmetic.name,
            "delta_bits": execution.arithmetic.delta_bits,
        } | {name: getattr(self, name) for name in ("masked", "delta_threshold", "budget", "kept_cells", "cell")}

    @property
    def text(self) -> str:
        """Preset, sizes, and what differs from the usual, on one line."""
        sizes = f"{self.preset} I {self.inputs} H {self.hidden} L {self.layers} B {self.batch} T {self.steps}"
        usual = Configuration(self.name, self.preset, 1, 1, 1, 1, 1).choices
        return ", ".join([sizes, *(f"{name} {value}" for name, value in self.choices.items() if value != usual[name])])


sparse = partial(Execution.read, storage="ms1-bf16", theta=0.1)
PRUNED = sparse()
int8 = partial(Execution.read, arithmetic=INT8.name)
CONFIGURATIONS = (
    Configuration("test dense", "test", 5, 6, 1, 3, 3),
    Configuration("test layers", "test", 9, 20, 2, 7, 4),
    Configuration("test masked", "test", 5, 6, 1, 3, 3, masked=True),
    Configuration("test groups masked", "test", 38, 18, 2, 8, 5,
                  Execution.read(storage="ms1", theta=0.0625, slices=4), masked=True, kept_cells=0.5),
    Configuration("test streams", "test", 9, 20, 2, 7, 4, Execution.read(storage="ms1")),
    Configuration("test sparse", "test", 9, 20, 2, 7, 6, PRUNED),
    Configuration("test pruned", "test", 9, 40, 1, 2, 4, Execution.read(storage="ms1-bf16"), delta_threshold=0.3),
    Configuration("test dynamic", "test", 9, 20, 1, 7, 4, Execution.read(architecture="dynamic")),
    Configuration("test static", "test", 9, 20, 1, 7, 4, Execution.read(architecture="static")),
    Configuration("test inference", "test", 9, 20, 1, 7, 4, Execution.read(architecture="inference")),
    Configuration("sim dense", "sim", 8, 32, 1, 32, 8),
    Configuration("sim ragged", "sim", 69, 99, 1, 3, 1),
    Configuration("sim layers masked", "sim", 20, 40, 2, 12, 6, masked=True),
    Configuration("sim streams", "sim", 20, 48, 2, 16, 6, Execution.read(storage="ms1")),
    Configuration("sim sparse", "sim", 24, 64, 1, 16, 6, PRUNED),
    Configuration("sim static", "sim", 20, 40, 1, 16, 4, Execution.read(architecture="static")),
    Configuration("sim dynamic streams", "sim", 20, 40, 1, 16, 4,
                  Execution.read(storage="ms1", architecture="dynamic")),
    Configuration("test narrow", "test", 9, 40, 2, 7, 4, sparse(weight_format=BF16)),
    Configuration("test narrow groups", "test", 9, 20, 2, 8, 4, Execution.read(slices=2, weight_format=BF16)),
    Configuration("slice narrow", "slice", 64, 128, 1, 16, 4, sparse(weight_format=BF16)),
    Configuration("test spill", "test", 5, 19, 2, 12, 32, Execution.read(storage="ms1", theta=0.1), budget=0.95),
    Configuration("test changes", "test", 9, 20, 2, 7, 6, sparse(input_threshold="0.3")),
    Configuration("test changes maps", "test", 10, 40, 1, 3, 5, Execution.read(input_threshold="0.4")),
    Configuration("test changes layers", "test", 10, 40, 3, 5, 7,
                  sparse(theta=0.05, slices=2, input_threshold="0.4"), kept_cells=0.5, seed=7),
    Configuration("test changes masked", "test", 9, 20, 2, 7, 9,
                  Execution.read(input_threshold="0.3", refresh=4), masked=True),
    Configuration("sim changes", "sim", 24, 64, 2, 16, 6, sparse(input_threshold="0.5")),
    Configuration("slice changes", "slice", 64, 128, 1, 16, 4, sparse(input_threshold="0.5")),
    Configuration("test changes rows", "test", 30, 40, 2, 7, 6,
                  Execution.read(input_threshold="0.3", refresh=4), masked=True),
    Configuration("sim changes rows", "sim", 120, 160, 1, 8, 6, sparse(input_threshold="0.5")),
    Configuration("slice changes rows", "slice", 256, 320, 1, 4, 4, Execution.read(input_threshold="1/0.1")),
    Configuration("test tokens", "test", 9, 20, 2, 7, 6, Execution.read(shared_tokens=11), masked=True),
    Configuration("slice tokens groups", "slice", 40, 64, 1, 16, 4, Execution.read(slices=2, shared_tokens=37)),
    Configuration("test cells", "test", 9, 20, 2, 7, 6, PRUNED, kept_cells=0.5),
    Configuration("sim cells dynamic", "sim", 20, 40, 2, 12, 6,
                  Execution.read(storage="ms1", theta=0.1, architecture="dynamic"), kept_cells=0.5),
    Configuration("slice cells dense", "slice", 48, 96, 2, 16, 5, kept_cells=0.4),
    Configuration("test hlstm", "test", 9, 20, 2, 7, 4, masked=True, cell=HLSTM.name),
    Configuration("sim hlstm sparse", "sim", 8, 64, 1, 16, 4, PRUNED, cell=HLSTM.name),
    Configuration("test groups", "test", 9, 20, 2, 8, 4, Execution.read(slices=2)),
    Configuration("test groups sparse", "test", 9, 20, 2, 8, 6, sparse(slices=2)),
    Configuration("slice groups", "slice", 40, 64, 1, 16, 4, Execution.read(storage="ms1-bf16", slices=2)),
    Configuration("slice dense", "slice", 40, 160, 1, 16, 3),
    Configuration("slice layers masked", "slice", 20, 40, 2, 12, 4, masked=True),
    Configuration("slice streams", "slice", 48, 96, 2, 16, 3, Execution.read(storage="ms1")),
    Configuration("slice sparse", "slice", 64, 128, 1, 16, 4, PRUNED),
    Configuration("slice dynamic", "slice", 40, 160, 1, 16, 3, Execution.read(architecture="dynamic")),
    Configuration("integers", "test-int8", 9, 20, 2, 7, 4, int8()),
    Configuration("integers masked", "test-int8", 13, 11, 2, 7, 5, int8(storage="ms1", theta=0.1), masked=True),
    Configuration("integers slices", "test-int8", 40, 33, 2, 9, 3, int8(slices=3, delta_bits=8)),
    Configuration("integers tokens", "test-int8", 13, 11, 2, 7, 5, int8(shared_tokens=9), masked=True),
    Configuration("integers streams", "sim-int8", 40, 70, 1, 19, 3, int8(delta_bits=15)),
    Configuration("integers sparse", "sim-int8", 64, 128, 1, 16, 6,
                  int8(storage="ms1-bf16", theta=0.1), delta_threshold=0.02, kept_cells=0.5),
    Configuration("integers changes", "test-int8", 40, 33, 3, 9, 5, int8(input_threshold="0.3/0.05,0.1,0.2")),
    Configuration("integers changes masked", "sim-int8", 64, 128, 2, 16, 6,
                  int8(storage="ms1-bf16", theta=0.1, input_threshold="0.1"), masked=True, kept_cells=0.5),
    Configuration("vcu128 dense", "vcu128", 512, 512, 1, 16, 2, Execution.read(storage="ms1-bf16")),
    # with this threshold 0.1 of δ is not zero
    Configuration("vcu128 sparse", "vcu128", 512, 512, 1, 16, 2,
                  Execution.read(storage="ms1-bf16"), delta_threshold=0.17),
)  # fmt: skip
SLOW = "vcu128"  # its simulator takes minutes to build, and minutes to run
# Of random configurations, by preset: the most inputs, units, layers, sequences and steps, and operations of an
# iteration. The Verilog takes seconds for them.
_MOST = {"test": (48, 48, 3, 12, 9, 2e6), "sim": (140, 120, 2, 24, 6, 6e6), "slice": (256, 200, 2, 20, 5, 3e7)}
_MOST_OF_INTEGERS = {"test-int8": (48, 48, 3, 12, 9, 2e6), "sim-int8": (140, 120, 2, 24, 6, 6e6)}


def chosen(preset_name: str | None) -> list[Configuration]:
    """Give the configurations of a preset, or those of float32 of all but the slow one.

    Raises ``ValueError`` if there is none of that preset.
    """
    names = dict.fromkeys(one.preset for one in CONFIGURATIONS)
    if preset_name is None:
        return [one for one in CONFIGURATIONS if one.preset != SLOW and one.preset not in _MOST_OF_INTEGERS]
    if preset_name not in names:
        raise ValueError(f"the model is checked on the presets {', '.join(names)}, got {preset_name!r}")
    return [one for one in CONFIGURATIONS if one.preset == preset_name]


def random_configurations(seed: int, first: int = 0, preset_name: str | None = None) -> Iterator[Configuration]:
    """Draw configurations of all sizes and options without end; `seed` and a number, from `first` on, make one.

    Without a preset they are of float32's. Raises ``ValueError`` if there are none of that preset.
    """
    presets = _MOST | _MOST_OF_INTEGERS
    if preset_name is not None and preset_name not in presets:
        raise ValueError(f"random configurations are of the presets {', '.join(presets)}, got {preset_name!r}")
    while True:
        generator, drawn = np.random.default_rng([seed, first]), None
        while drawn is None:
            drawn = _draw(generator, f"random {first}", preset_name)
        yield drawn
        first += 1


def _draw(generator: np.random.Generator, name: str, preset_name: str | None) -> Configuration | None:
    """Draw a configuration; None if it is too large, or its choices do not go together."""

    def one_of(*values: Any) -> Any:
        return values[generator.integers(len(values))]

    machine = one_of(*_MOST) if preset_name is None else preset_name
    *most, work = (_MOST | _MOST_OF_INTEGERS)[machine]
    inputs, hidden, layers, batch, steps = (int(generator.integers(1, size + 1)) for size in most)
    storage, tokens = one_of(*POLICIES), int(generator.integers(1, batch * steps + 1))
    choices: dict[str, Any] = {
        "storage": storage,
        "theta": 0.0 if storage == DENSE else one_of(0.0, 0.0625, 0.125, 0.375),
        "slices": one_of(1, 1, int(generator.integers(1, min(batch, 6) + 1))),
        "input_threshold": one_of("0", "0", "0.2", "0.4", "1/0.1"),
        "weight_format": one_of(FLOAT32, FLOAT32, BF16),
        "shared_tokens": one_of(None, None, None, tokens),
        "architecture": one_of(*[SWING.name] * 3, *ARCHITECTURES),
    }
    if choices["input_threshold"] != "0":
        choices["refresh"] = one_of(0, 2, 4)
    if machine in _MOST_OF_INTEGERS:  # they take fewer options
        float32_only = ("weight_format", "architecture")
        choices = {name: value for name, value in choices.items() if name not in float32_only}
        choices |= {"arithmetic": INT8.name, "delta_bits": int(generator.integers(8, 16))}
    others: dict[str, Any] = {
        "masked": one_of(False, True),
        "delta_threshold": 0.0 if storage == DENSE else one_of(0.0, 0.1, 0.3),
        "kept_cells": one_of(1.0, 1.0, 0.5),
        "cell": LSTM.name if machine in _MOST_OF_INTEGERS else one_of(*[LSTM.name] * 4, *CELLS),
        "seed": int(generator.integers(1 << 16)),
    }
    try:
        sizes = inputs, hidden, layers, batch, steps
        drawn = Configuration(name, machine, *sizes, Execution.read(**choices), **others)
        shape = drawn.shape
    except ValueError:
        return None
    return drawn if operations(shape.network, batch, steps) <= work else None
