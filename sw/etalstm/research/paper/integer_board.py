"""A training iteration on a machine of integers, by its cycle model, beside a V100."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from etalstm.model.across import batch_of_board
from etalstm.model.measured import Shares, measure, sending
from etalstm.network.arithmetic import INT8
from etalstm.network.benchmarks import STORAGE, Benchmark
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.research.paper import energy, gpu
from etalstm.research.paper.densities import IntegerShares, integer_shares_of
from etalstm.research.paper.roofline import DENSE as ALL
from etalstm.research.paper.roofline import v100_seconds
from etalstm_hw.config import Config

EXECUTION = Execution.read(storage=STORAGE, arithmetic=INT8.name)
DENSE = IntegerShares(ALL, 2.0, INT8.delta_bits, changes=False)
TIME = (
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
"""``changes`` says whether x and h are sent as changes. δ and digits are those of the cells that are kept. The
milliseconds of a pass are those of all its programs. ``useful`` is the share of all multiplications that the machine
can make. A shape has a star whose shares were measured with float32.
"""
BYTES = (
    "shape",
    "memory, GB",
    "of the GPU's",
    "weights loaded, GB",
    "loads a step",
    "intermediates moved, GB",
    "of the GPU's",
    "joules",
    "V100's, times",
)
"""``loads a step``: bytes of weights that forward and backward passes load, over those of one load of all weights in
each step that a pass has. The GPU's are of dense float32 tensors. ``V100's, times``: its joules over the board's, with
their band; of the mean, the means of the bands' ends.
"""
_GIGA = 1e9


@dataclass(frozen=True)
class Iteration:
    """An iteration of a benchmark on a board, or on each of several that share the batch.

    `found` is what :func:`etalstm.model.measured.measure` gives, `shares` what it was asked for.
    """

    benchmark: Benchmark
    config: Config
    studied: IntegerShares
    shares: Shares
    boards: int
    found: Mapping

    @property
    def name(self) -> str:
        """The shape's, with a star if its shares were measured with float32."""
        return self.benchmark.name if self.studied.own else f"{self.benchmark.name} *"

    @property
    def speed(self) -> float:
        """How many times as fast as a V100."""
        return 1e3 * v100_seconds(self.benchmark) / self.found["milliseconds"]

    def of_pass(self, name: str) -> float:
        """Give the milliseconds of a pass, which may have several programs."""
        cycles = sum(self._of_programs("passes", name))
        return cycles / self.config.clock_mhz / 1e3

    @property
    def loaded(self) -> int:
        """Bytes of weights that the passes of one board load."""
        return sum(self._of_programs("weights_read", "forward")) + sum(self._of_programs("weights_read", "backward"))

    @property
    def loads(self) -> float:
        """How often weights are loaded in a step that a pass has."""
        network, steps = self.benchmark.network, self.benchmark.steps
        one = network.weights()  # a byte each
        return self.loaded / (one * (steps + round(self.studied.left.backward * steps)))

    def moved(self, kind: str) -> int:
        """Give the bytes that one board reads and writes of a kind."""
        return self.found["bytes"][f"read_{kind}"] + self.found["bytes"][f"write_{kind}"]

    @property
    def events(self) -> energy.Events:
        """What takes energy, on all boards."""
        found, seconds = self.found, self.found["milliseconds"] / 1e3
        moved = sum(found["bytes"].values())
        macs = found["utilization"] * self.config.macs * found["cycles"]
        return energy.machine_events(found["operations"], moved, seconds, self.boards, macs)

    def _of_programs(self, quantity: str, name: str) -> Iterator[int]:
        return (of for program, of in self.found[quantity].items() if program.startswith(name))


def iterations(
    config: Config, benchmarks: Sequence[Benchmark], dense: bool = False, boards: int = 1
) -> Iterator[Iteration]:
    """Model an iteration of each benchmark at the shares of its study, or `dense`: nothing is left out.

    Each of several boards has as many of the sequences; what they exchange is left out. ``ValueError`` if the machine
    has no integers.
    """
    if not config.integers:
        raise ValueError("the preset must have integer_pes")
    for benchmark in benchmarks:
        studied = DENSE if dense else integer_shares_of(benchmark.name)
        shares = _shares(studied)
        sends = sending(shares.inputs) if studied.changes else DeltaInputs()
        arithmetic = INT8.with_delta_bits(studied.delta_bits)
        execution = replace(EXECUTION, arithmetic=arithmetic, delta_inputs=sends)
        sizes = benchmark.network, batch_of_board(benchmark.batch, boards), benchmark.steps
        found = measure(*sizes, config, execution, shares, choose_slices=False, layers_apart=boards > 1)
        yield Iteration(benchmark, config, studied, shares, boards, found)


def time_rows(found: Sequence[Iteration]) -> Iterator[list[str]]:
    """Give rows of texts, as :data:`TIME`: of each iteration, and the mean of all."""
    for one in found:
        studied, shares = one.studied, one.shares
        left = (f"{share:.2f}" for share in (studied.left.backward, shares.delta, shares.digits_of_delta))
        sent = [f"{shares.inputs:.2f}", "yes" if studied.changes else "", *left]
        parts = [one.of_pass(name) for name in ("forward", "backward", "update")]
        times = (f"{time:.1f}" for time in (one.found["milliseconds"], *parts))
        yield [one.name, *sent, *times, f"{one.found['utilization']:.2f}", f"{one.speed:.2f}"]
    yield ["mean", *[""] * (len(TIME) - 2), f"{fmean(one.speed for one in found):.2f}"]


def byte_rows(found: Sequence[Iteration]) -> Iterator[list[str]]:
    """Give rows of texts, as :data:`BYTES`: of each iteration, all boards together, and the means of all."""
    memories, moves, energies, draws = [], [], [], energy.draw()
    for one in found:
        work = gpu.Work(one.benchmark.network, one.benchmark.batch, one.benchmark.steps)
        memory, moved = one.boards * sum(one.found["footprint"].values()), one.boards * one.moved("intermediates")
        joules, gpu_events = energy.joules(one.events), {"gpu_cudnn": v100_seconds(one.benchmark)}
        memories.append(memory / sum(gpu.footprint(work).values()))
        moves.append(moved / gpu.moved(work)["intermediates"])
        spread = energy.band(energy.joules(gpu_events, draws) / energy.joules(one.events, draws))
        energies.append((energy.joules(gpu_events) / joules, *spread))
        weights = one.boards * one.loaded
        yield [
            one.name, f"{memory / _GIGA:.2f}", f"{memories[-1]:.2f}", f"{weights / _GIGA:.2f}", f"{one.loads:.2f}",
            f"{moved / _GIGA:.2f}", f"{moves[-1]:.2f}", f"{joules:.1f}", _with_band(energies[-1]),
        ]  # fmt: skip
    mean = _with_band([fmean(each) for each in zip(*energies, strict=True)])
    yield ["mean", "", f"{fmean(memories):.2f}", "", "", "", f"{fmean(moves):.2f}", "", mean]


def _with_band(values: Sequence[float]) -> str:
    value, low, high = values
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def _shares(studied: IntegerShares) -> Shares:
    """Give what the model asks for: δ and digits are those of the cells that are kept."""
    left = studied.left
    delta, digits = (min(most, share / left.backward) for most, share in ((1.0, left.delta), (2.0, studied.digits)))
    return Shares(delta, left.local, left.inputs, (left.backward,), digits)
