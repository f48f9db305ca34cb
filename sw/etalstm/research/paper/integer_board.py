"""A training iteration on a machine of integers, by its cycle model, beside a V100."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from etalstm.model.measured import Shares, measure, sending
from etalstm.network.arithmetic import INT8
from etalstm.network.benchmarks import STORAGE, Benchmark
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.research.paper.densities import IntegerShares, integer_shares_of
from etalstm.research.paper.roofline import DENSE as ALL
from etalstm.research.paper.roofline import v100_seconds
from etalstm_hw.config import Config

EXECUTION = Execution.read(storage=STORAGE, arithmetic=INT8.name)
DENSE = IntegerShares(ALL, 2.0, INT8.delta_bits, changes=False)
HEADINGS = (
    "shape",
    "x, h sent",
    "changes",
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


def rows(config: Config, benchmarks: Sequence[Benchmark], dense: bool = False) -> Iterator[list[str]]:
    """Give rows of texts, as :data:`HEADINGS`: of each benchmark, and the mean of all.

    δ and digits are those of the cells that are kept. ``changes`` says whether x and h are sent as changes. A part of
    the milliseconds is that of all programs of the pass. ``useful`` is the share of all multiplications that the
    machine can make. A shape has a star whose shares were measured with float32. ``ValueError`` if the machine has no
    integers.
    """
    if not config.integers:
        raise ValueError("the preset must have integer_pes")
    ratios = []
    for benchmark in benchmarks:
        studied = DENSE if dense else integer_shares_of(benchmark.name)
        shares = _shares(studied)
        sends = sending(shares.inputs) if studied.changes else DeltaInputs()
        arithmetic = INT8.with_delta_bits(studied.delta_bits)
        execution = replace(EXECUTION, arithmetic=arithmetic, delta_inputs=sends)
        sizes = benchmark.network, benchmark.batch, benchmark.steps
        found = measure(*sizes, config, execution, shares, choose_slices=False)
        ratios.append(1e3 * v100_seconds(benchmark) / found["milliseconds"])
        parts = [_of_pass(config, found["passes"], name) for name in ("forward", "backward", "update")]
        left = (f"{share:.2f}" for share in (studied.left.backward, shares.delta, shares.digits_of_delta))
        sent = [f"{shares.inputs:.2f}", "yes" if studied.changes else "", *left]
        times = (f"{time:.1f}" for time in (found["milliseconds"], *parts))
        name = benchmark.name if studied.own else f"{benchmark.name} *"
        yield [name, *sent, *times, f"{found['utilization']:.2f}", f"{ratios[-1]:.2f}"]
    yield ["mean", *[""] * (len(HEADINGS) - 2), f"{sum(ratios) / len(ratios):.2f}"]


def _shares(studied: IntegerShares) -> Shares:
    """Give what the model asks for: δ and digits are those of the cells that are kept."""
    left = studied.left
    delta, digits = (min(most, share / left.backward) for most, share in ((1.0, left.delta), (2.0, studied.digits)))
    return Shares(delta, left.local, left.inputs, (left.backward,), digits)


def _of_pass(config: Config, passes: dict[str, int], name: str) -> float:
    """Give the milliseconds of a pass, which may have several programs."""
    return sum(cycles for program, cycles in passes.items() if program.startswith(name)) / config.clock_mhz / 1e3
