"""Time and memory of attention whose maps are kept, beside attention whose maps are computed again.

Dimensions: B pairs, T steps of decoder and encoder, H units.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from etalstm.host.turns import take_turns
from etalstm.network.shape import check_sizes
from etalstm.nn.recompute import AUTO, OFF, ON, decided
from etalstm.nn.torch_device import CPU, CUDA, check_device, device_name, peak_bytes, waited_for
from etalstm.research.reduced.compression import kept_tensors, storage_bytes
from etalstm.research.translate.attention import Attention, additive, attention_of
from etalstm.research.translate.corpus import SPECIAL, batch_of
from etalstm.research.translate.network import Translator, loss_of
from etalstm.research.translate_settings import ADDITIVE, Sizes

SIDE = {CPU: 512, CUDA: 2048}  # of the matrix product that the rule's constants are measured with
FLOATS = {CPU: 1 << 22, CUDA: 1 << 26}  # of the memory that they are measured with


@dataclass(frozen=True)
class Measured:
    """Sizes of a measurement: H, B, T, tokens of each language; kind of attention, turns and device.

    Three passes of each case count in each of the `runs` turns. The device is ``cpu`` or ``cuda``. On a GPU the model
    has ``torch.nn.LSTM``, on the host golden.
    """

    hidden: int = 256
    batch: int = 32
    steps: int = 30
    tokens: int = 6000
    attention: str = ADDITIVE
    runs: int = 15
    device: str = CPU

    def __post_init__(self):
        check_sizes(hidden=self.hidden, batch=self.batch, steps=self.steps, tokens=self.tokens, runs=self.runs)
        if self.tokens <= len(SPECIAL):
            raise ValueError(f"tokens must be above {len(SPECIAL)}, the special ones, got {self.tokens}")
        check_device(self.device)


def measure(sizes: Measured) -> dict:
    """Run the attention alone, and iterations of the translation model; the cases take turns.

    Gives a dict: ``attention`` and ``iteration``: ``kept`` and ``again`` with ``seconds`` (median) and ``peak_bytes``
    (see :func:`etalstm.nn.torch_device.peak_bytes`); ``time`` (median of the turns' quotients, again over kept) and
    ``peak`` (quotient). The attention has ``kept_bytes`` besides: what its graph holds between the passes, without
    inputs, result and parameters. ``equal``: all gradients have the same bits. ``auto``: what the rule chooses.
    ``flops_per_byte``, ``flops_per_element``: the rule's constants on this device. ``device``: its model if it is a
    GPU. ``threads``, ``torch``: of PyTorch.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        return _measure(sizes)


def _measure(sizes: Measured) -> dict:
    attention = [_AttentionWork(sizes, mode) for mode in (OFF, ON)]
    iteration = [_IterationWork(sizes, mode) for mode in (OFF, ON)]
    result: dict[str, Any] = {"attention": _compared(attention, sizes), "iteration": _compared(iteration, sizes)}
    for case, work in zip(("kept", "again"), attention, strict=True):
        result["attention"][case]["kept_bytes"] = work.kept_bytes()
    result |= {"equal": _equal(*attention) and _equal(*iteration), "auto": _choice(sizes)}
    machine = {"device": device_name(sizes.device), "threads": torch.get_num_threads(), "torch": torch.__version__}
    return result | constants(sizes.runs, sizes.device) | machine


def _equal(one: Callable[[], list[Tensor]], other: Callable[[], list[Tensor]]) -> bool:
    return all(torch.equal(*pair) for pair in zip(one(), other(), strict=True))


def constants(runs: int, device: str = CPU) -> dict[str, float]:
    """Measure a device's constants for :mod:`etalstm.nn.recompute`, in operations of a matrix product.

    Gives a dict: ``flops_per_byte``: in the time in which a byte is written to fresh memory and read again.
    ``flops_per_element``: in the time of an element of the additive attention's maps.
    """
    side, floats = SIDE[device], FLOATS[device]
    steps = side // 8
    square, wide = torch.randn(side, side, device=device), torch.randn(side, device=device)
    queries, keys = torch.randn(2, 1, steps, side, device=device)
    works = [
        lambda: square @ square,
        lambda: torch.empty(floats, device=device).fill_(1.0).sum(),
        lambda: additive(queries, keys, wide),
    ]
    timed = take_turns([waited_for(work, device) for work in works], runs)
    product, memory, map_ = timed.min(axis=1)  # other programs only add to them
    flops = 2 * side**3 / product
    return {
        "flops_per_byte": float(memory * flops / (floats * queries.element_size())),
        "flops_per_element": float(map_ * flops / steps**2 / side),
    }


class _AttentionWork:
    """A forward and a backward pass of an attention."""

    def __init__(self, sizes: Measured, mode: str):
        torch.manual_seed(0)
        self.module = attention_of(sizes.attention, sizes.hidden, mode).to(sizes.device)
        self.queries, self.keys, self.dy = torch.randn(3, sizes.batch, sizes.steps, sizes.hidden).to(sizes.device)
        self.padding = torch.zeros(sizes.batch, sizes.steps, dtype=torch.bool, device=sizes.device)

    def __call__(self) -> list[Tensor]:
        self.module.zero_grad()
        inputs = self._inputs()
        self.module(*inputs, self.padding).backward(self.dy)
        return _gradients((*inputs, *self.module.parameters()))

    def kept_bytes(self) -> int:
        inputs, results = self._inputs(), []
        tensors = kept_tensors(lambda: results.append(self.module(*inputs, self.padding)))
        return storage_bytes(tensors, [*inputs, self.padding, *results, *self.module.parameters()])

    def _inputs(self) -> list[Tensor]:
        return [tensor.clone().requires_grad_() for tensor in (self.queries, self.keys)]


class _IterationWork:
    """A forward and a backward pass of the whole model on sentences without padding."""

    def __init__(self, sizes: Measured, mode: str):
        torch.manual_seed(0)
        sentences = torch.randint(len(SPECIAL), sizes.tokens, (2, sizes.batch, sizes.steps)).tolist()
        self.batch = batch_of(sentences[0], [sentence[1:] for sentence in sentences[1]]).to(sizes.device)
        network = Sizes(sizes.hidden, sizes.hidden, attention=sizes.attention)
        self.module = Translator(sizes.tokens, sizes.tokens, network, mode)
        if sizes.device == CUDA:
            self.module.add_module("encoder", self.module.encoder.to_stock())
            self.module.add_module("decoder", self.module.decoder.to_stock())
            self.module.to(CUDA)

    def __call__(self) -> list[Tensor]:
        self.module.zero_grad()
        loss_of(self.module(self.batch), self.batch).backward()
        return _gradients(self.module.parameters())


def _gradients(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Give the gradients that a backward pass has left to tensors that all need one."""
    return [cast(Tensor, tensor.grad) for tensor in tensors]


def _compared(works: Sequence[_AttentionWork | _IterationWork], sizes: Measured) -> dict:
    kept, again = take_turns([waited_for(work, sizes.device) for work in works], sizes.runs)
    peaks = [peak_bytes(work.module, work, sizes.device) for work in works]
    cases = zip(("kept", "again"), (kept, again), peaks, strict=True)
    result = {name: {"seconds": float(np.median(seconds)), "peak_bytes": peak} for name, seconds, peak in cases}
    return result | {"time": float(np.median(again / kept)), "peak": peaks[1] / peaks[0]}


def _choice(sizes: Measured) -> str:
    """Tell what the rule chooses for these sizes."""
    module: Attention = attention_of(sizes.attention, sizes.hidden, AUTO).to(sizes.device)
    return decided(AUTO, module.cost(sizes.batch, sizes.steps, sizes.steps), torch.device(sizes.device))
