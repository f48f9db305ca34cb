"""Plans a network and runs its programs through the cycle model, for ``eta-lstm model`` and ``research paper``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from etalstm.host.computer import worker_processes
from etalstm.model.iteration import count_iteration
from etalstm.model.operands import Densities
from etalstm.network.benchmarks import STORAGE
from etalstm.network.delta_inputs import DeltaInputs, LayerInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, operations
from etalstm.network.storage import Storage
from etalstm.plan.choose.fit import plan_network, share_of
from etalstm.plan.memory.operands import LOCAL_GRADIENTS
from etalstm.plan.plan import REFRESH, Plan
from etalstm_hw.config import Config

EVERY = (1.0,)  # a share of the cells that are kept, for all layers


def read_kept(text: str) -> tuple[float, ...]:
    """Read the share of the cells that are kept: one number, or one for each layer, with commas between.

    ``ValueError`` if it is neither. :func:`early_cells` looks at the values.
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        expected = "a share, or one for each layer, with commas between"
        raise ValueError(f"kept_cells must be {expected}, got {text!r}") from error


def early_cells(layers: int, steps: int, kept: Sequence[float] = EVERY) -> np.ndarray:
    """Choose the cells that are skipped, bool, (L, T), so that each layer keeps a share of its steps, the last ones.

    As in training with a loss at the last step, the cells of early steps are skipped (MS2). `kept` has one share for
    all layers, or one for each. A layer keeps the nearest number of steps, and at least one. ``ValueError`` unless
    shares are above 0 and at most 1, and there are as many as 1 or the layers.
    """
    if len(kept) not in (1, layers):
        raise ValueError(f"kept_cells must be one share, or one for each of {layers} layers, got {len(kept)}")
    for share in kept:
        if not 0 < share <= 1:
            raise ValueError(f"kept_cells must be above 0 and at most 1, got {share:g}")
    counts = np.maximum(np.rint(np.multiply(kept, steps)).astype(int), 1)
    first = steps - np.broadcast_to(counts, layers)
    return np.arange(steps) < first[:, None]


REDUCED = Execution(Storage(STORAGE))  # what is modelled by default: the storage of the benchmarks


@dataclass(frozen=True)
class Shares:
    """What of an iteration's numbers is not zero. ``ValueError`` if a share is outside [0, 1]."""

    delta: float = 1.0  # of δ, in the cells that are kept
    local: float = 1.0  # of the local gradients, in these cells
    inputs: float = 1.0  # of x and h, what is sent; with delta inputs at steps that are no refresh steps
    kept_cells: tuple[float, ...] = EVERY  # of the cells, those that are kept; :func:`early_cells` looks at them
    digits: float | None = None  # with integers, of each element of δ; None: two of each that is not zero

    def __post_init__(self):
        named = {"density": self.delta, "local_density": self.local, "input_density": self.inputs}
        for name, share in named.items():
            if not 0 <= share <= 1:
                raise ValueError(f"{name} must be 0 to 1, got {share}")
        if self.digits is not None and not self.delta <= self.digits <= 2 * self.delta:
            least = "from one to two of each element that is not zero"
            raise ValueError(f"digits must be {self.delta:g} to {2 * self.delta:g}, {least}, got {self.digits:g}")

    @property
    def digits_of_delta(self) -> float:
        """Digits of each element of δ."""
        return 2 * self.delta if self.digits is None else self.digits


def sending(share: float, refresh: int = 0) -> DeltaInputs:
    """Give delta inputs that send a share of x and h between refresh steps. What a model sends has no threshold."""
    return DeltaInputs() if share == 1 else DeltaInputs(0.0, refresh)


def measure_all(sizes: Sequence[tuple[NetworkShape, int, int]], processors: int, **options: Any) -> Iterator[dict]:
    """Measure several networks on so many processors; yields what :func:`measure` gives with the options, in the order
    of `sizes`.
    """
    one, columns = partial(measure, **options), zip(*sizes, strict=True)
    workers = min(len(sizes), processors)
    if workers == 1:
        yield from map(one, *columns)
        return
    with worker_processes(workers) as pool:
        yield from pool.map(one, *columns)


def plan_modelled(
    config: Config,
    network: NetworkShape,
    batch: int,
    steps: int,
    execution: Execution,
    *,
    local: float = 1.0,
    **options: Any,
) -> Plan:
    """Plan a network for all the memory that the machine can address.

    `local` is the share of the local gradients that logs have room for. The other options are those of
    :func:`etalstm.plan.choose.fit.plan_network`, which says what is raised.
    """
    bf16 = execution.storage.layer(0).bf16

    def share(log: int) -> float:
        return share_of(local, bf16, log) if log == LOCAL_GRADIENTS else 1.0

    sizes = network, batch, steps
    return plan_network(config, *sizes, execution, memory_bytes=1 << config.address_bits, share=share, **options)


def measure(
    network: NetworkShape,
    batch: int,
    steps: int,
    config: Config,
    execution: Execution = REDUCED,
    shares: Shares = Shares(),
    *,
    choose_slices: bool = True,
    masked: bool = False,
    mean_length: float | None = None,
    forward: bool = False,
    layers_apart: bool = False,
) -> dict:
    """Plan a network and model an iteration of it, or its forward pass.

    The thresholds of the execution drop nothing: `shares` say what is zero. An architecture that skips no zeros has no
    delta inputs. With `choose_slices` there are as many slices as the machine uses best, instead of the execution's.
    `layers_apart`, as on one of several boards: the backward pass has a program for each layer; with integers it leaves
    sums, and a program finishes what the host has made of them. `masked`: sequences may end early, and the shares have
    counted padding as zeros. With a `mean_length` of the sequences, in steps, they have not.

    Gives a dict: ``groups`` of channels, ``cycles``, ``utilization`` (MACs that are made, of the network's, over those
    of all PEs in the cycles; with integers each digit of δ takes one), ``dense_equivalent`` (the same of all of the
    network's MACs, those that are skipped included, of digits one each),
    ``milliseconds`` at the configuration's clock, ``bytes`` by kind, read and written, ``operations`` of all lanes:
    ``mac``, ``elementwise`` and ``activation``, ``footprint``: bytes of memory by kind, ``passes``: cycles of each
    program, and ``weights_read``: bytes of each. An architecture that skips no zeros makes the MACs of δ's zeros, too;
    their bytes are dropped from streams all the same.

    ``ValueError`` if a share of the cells or the mean length is out of its range, :class:`PlanError` if the network
    does not fit the memory.
    """
    machine, skipped = execution.architecture, early_cells(network.layers, steps, shares.kept_cells)
    real = _real_steps(mean_length, steps)
    shares = shares if machine.skips else replace(shares, inputs=1.0)
    if shares.inputs == 1:
        execution = replace(execution, delta_inputs=DeltaInputs())
    plan = plan_modelled(
        config, network, batch, steps, execution, local=shares.local, choose_slices=choose_slices,
        masked=masked or mean_length is not None, layers_apart=layers_apart,
        gradient_sums=layers_apart and execution.arithmetic.exact,
    )  # fmt: skip
    exact = execution.arithmetic.exact
    of_operands = {"delta": shares.delta, "local": shares.local, "inputs": shares.inputs}
    of_operands |= {"digits": shares.digits_of_delta}
    operands = Densities(config, plan, **of_operands, real=real)
    passes = count_iteration(config, plan, operands, machine, skipped=skipped, only="forward" if forward else "")
    passes.pop(REFRESH, None)
    every = list(passes.values())
    cycles = sum(counters["cycles"] for counters in every)
    of_pass, tokens = operations(network, batch, steps) // 6, execution.shared_tokens
    sends = execution.delta_inputs.layer(0)
    refreshed = _refreshed(sends, exact, steps)
    made, macs = (1 - (1 - shares.inputs) * (1 - refreshed)) * of_pass, float(of_pass)
    if tokens is not None:
        made -= network.rows * (batch * steps * (network.input_size - 1) - tokens * network.input_size)
    if not forward:
        sent_deltas = (shares.digits_of_delta if exact else shares.delta) if machine.skips else 1.0
        made, macs = made + 2 * sent_deltas * _backward_macs(network, batch, skipped), 3 * of_pass
    made, macs = real * made, real * macs
    moved = {
        f"{way}_{kind}": sum(counters[f"{way}_bytes"][kind] for counters in every)
        for way in ("read", "write")
        for kind in every[0]["read_bytes"]
    }
    of_lanes = {  # those without an element count like the others
        kind: config.lanes * sum(counters["channel_cycles"][kind] for counters in every)
        for kind in ("mac", "elementwise")
    }
    return {
        "groups": plan.groups,
        "cycles": cycles,
        "utilization": made / (config.macs * cycles),
        "dense_equivalent": macs / (config.macs * cycles),
        "milliseconds": cycles / config.clock_mhz / 1000,
        "bytes": moved | {"program": sum(counters["program_bytes"] for counters in every)},
        "operations": of_lanes | {"activation": sum(counters["activation"] for counters in every)},
        "footprint": plan.footprint(),
        "passes": {name: counters["cycles"] for name, counters in passes.items()},
        "weights_read": {name: counters["read_bytes"]["weights"] for name, counters in passes.items()},
    }


def _refreshed(sends: LayerInputs, exact: bool, steps: int) -> float:
    """Give the share of the steps at which all of x and h is sent; machines of integers send no zeros."""
    if exact:
        return 0.0 if sends.off else float(sends.of_integers.refreshed(steps).mean())
    return float(sends.refreshed(steps).mean())


def _real_steps(mean_length: float | None, steps: int) -> float:
    """Give the share of the steps that are no padding."""
    if mean_length is None:
        return 1.0
    if not 1 <= mean_length <= steps:
        raise ValueError(f"mean_length must be 1 to {steps}, the steps, got {mean_length:g}")
    return mean_length / steps


def _backward_macs(network: NetworkShape, batch: int, skipped: np.ndarray) -> int:
    """Count the MACs of one of the two products with δ, of the cells that are kept."""
    of_cell = [network.of_layers(range(layer, layer + 1)).weights() * batch for layer in range(network.layers)]
    return int(np.dot(of_cell, np.count_nonzero(~skipped, axis=1)))
