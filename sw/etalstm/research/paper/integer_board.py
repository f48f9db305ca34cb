"""A training iteration on a machine of integers, by its cycle model, beside a V100."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from etalstm.model.measured import Shares, measure, sending
from etalstm.network.arithmetic import INT8
from etalstm.network.benchmarks import STORAGE, Benchmark
from etalstm.network.execution import Execution
from etalstm.research.paper.densities import Shares as Studied
from etalstm.research.paper.densities import densities_of
from etalstm.research.paper.roofline import DENSE, v100_seconds
from etalstm_hw.config import Config

DELTA_BITS = 15
EXECUTION = Execution.read(storage=STORAGE, arithmetic=INT8.name, delta_bits=DELTA_BITS)
HEADINGS = (
    "shape",
    "x, h sent",
    "cells kept",
    "δ",
    "digits",
    "ms",
    "forward",
    "backward",
    "update",
    "useful",
    "of a V100",
)


def rows(config: Config, benchmarks: Sequence[Benchmark], digits: float, dense: bool = False) -> Iterator[list[str]]:
    """Give rows of texts, as :data:`HEADINGS`: of each benchmark, and the mean of all.

    `digits` are those of each δ that is not zero. δ is that of the cells that are kept. A part of the milliseconds is
    that of all programs of the pass. ``useful`` is the share of all multiplications that the machine can make.
    ``ValueError`` if the machine has no integers, or `digits` are not from 1 to 2.
    """
    if not config.integers:
        raise ValueError("the preset must have integer_pes")
    if not 1 <= digits <= 2:
        raise ValueError(f"digits must be from 1 to 2, got {digits}")
    ratios = []
    for benchmark in benchmarks:
        studied = DENSE if dense else densities_of(benchmark.name).eta
        shares = _shares(studied, 2.0 if dense else digits)
        execution = replace(EXECUTION, delta_inputs=sending(shares.inputs))
        sizes = benchmark.network, benchmark.batch, benchmark.steps
        found = measure(*sizes, config, execution, shares, choose_slices=False)
        ratios.append(1e3 * v100_seconds(benchmark) / found["milliseconds"])
        parts = [_of_pass(config, found["passes"], name) for name in ("forward", "backward", "update")]
        left = (f"{s:.2f}" for s in (shares.inputs, studied.backward, shares.delta, shares.digits_of_delta))
        times = (f"{time:.1f}" for time in (found["milliseconds"], *parts))
        yield [benchmark.name, *left, *times, f"{found['utilization']:.2f}", f"{ratios[-1]:.2f}"]
    yield ["mean", *[""] * (len(HEADINGS) - 2), f"{sum(ratios) / len(ratios):.2f}"]


def _shares(studied: Studied, digits: float) -> Shares:
    """Give what the model asks for: a study's δ are those of the cells that are kept."""
    delta = min(1.0, studied.delta / studied.backward)
    return Shares(delta, studied.local, studied.inputs, (studied.backward,), digits * delta)


def _of_pass(config: Config, passes: dict[str, int], name: str) -> float:
    """Give the milliseconds of a pass, which may have several programs."""
    return sum(cycles for program, cycles in passes.items() if program.startswith(name)) / config.clock_mhz / 1e3
