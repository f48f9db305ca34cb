"""Time and memory of attention whose maps are kept, beside attention whose maps are computed again.

Dimensions: B pairs, T steps of decoder and encoder, H units.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from etalstm.host.turns import take_turns
from etalstm.models.translate.attention import ADDITIVE, Attention, additive, attention_of
from etalstm.models.translate.batches import batch_of
from etalstm.models.translate.network import Sizes, Translator, loss_of
from etalstm.models.translate.vocabulary import SPECIAL
from etalstm.network import check_size
from etalstm.nn.recompute import AUTO, OFF, ON
from etalstm.nn.reduced.memory import held_bytes, kept_tensors

MEMORY_EVENT = "[memory]"
SIDE, FLOATS = 512, 1 << 22  # of the matrix product and the memory that the rule's constants are measured with


@dataclass(frozen=True)
class Measured:
    """What is measured.

    Members
    -------
    hidden, batch, steps, tokens : int
        H, B, T, and tokens of each language.
    attention : str
    runs : int
        Turns, after one that warms up.
    """

    hidden: int = 256
    batch: int = 32
    steps: int = 30
    tokens: int = 6000
    attention: str = ADDITIVE
    runs: int = 15

    def __post_init__(self):
        for name in ("hidden", "batch", "steps", "tokens", "runs"):
            check_size(name, getattr(self, name))
        if self.tokens <= len(SPECIAL):
            raise ValueError(f"tokens must be above {len(SPECIAL)}, the special ones, got {self.tokens}")


def measure(sizes: Measured) -> dict:
    """Run the attention alone, and iterations of the translation model on golden; the cases take turns.

    Returns
    -------
    dict
        ``attention`` and ``iteration``: ``kept`` and ``again`` with ``seconds`` (median) and ``peak_bytes`` (the most
        memory that PyTorch's tensors take at a time, above what they took before); ``time`` (median of the turns'
        quotients, again over kept) and ``peak`` (quotient). The attention has ``kept_bytes`` besides: what its graph
        holds between the passes, without inputs, result and parameters. ``equal``: all gradients have the same bits.
        ``auto``: what the rule chooses. ``flops_per_byte``, ``flops_per_element``: the rule's constants on this host.
        ``threads``, ``torch``: of PyTorch.
    """
    with torch.random.fork_rng(devices=[]):
        attention, iteration = _attention_works(sizes), _iteration_works(sizes)
    result = {"attention": _compared(attention, sizes.runs), "iteration": _compared(iteration, sizes.runs)}
    for case, work in zip(("kept", "again"), attention, strict=True):
        result["attention"][case]["kept_bytes"] = work.kept_bytes()
    result |= {"equal": _equal(*attention) and _equal(*iteration), "auto": _choice(sizes)}
    return result | constants(sizes.runs) | {"threads": torch.get_num_threads(), "torch": torch.__version__}


def _equal(one: Callable[[], list[Tensor]], other: Callable[[], list[Tensor]]) -> bool:
    return all(torch.equal(*pair) for pair in zip(one(), other(), strict=True))


def peak_bytes(work: Callable[[], object]) -> int:
    """Give the most memory of the host that PyTorch's tensors take during a call, above what they took before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == MEMORY_EVENT]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(max(np.cumsum([0, *changes])))


def constants(runs: int) -> dict[str, float]:
    """Measure what :mod:`etalstm.nn.recompute` and the attention take from a host, in operations of a matrix product.

    Returns
    -------
    dict
        ``flops_per_byte``: in the time in which a byte is written to fresh memory and read again.
        ``flops_per_element``: in the time of an element of the additive attention's maps.
    """
    square, wide = torch.randn(SIDE, SIDE), torch.randn(SIDE)
    queries, keys = torch.randn(1, SIDE // 8, SIDE), torch.randn(1, SIDE // 8, SIDE)
    works = [
        lambda: square @ square,
        lambda: torch.empty(FLOATS).fill_(1.0).sum(),
        lambda: additive(queries, keys, wide),
    ]
    product, memory, map_ = take_turns(works, runs).min(axis=1)  # other programs only add to them
    flops = 2 * SIDE**3 / product
    return {
        "flops_per_byte": float(memory * flops / (FLOATS * queries.element_size())),
        "flops_per_element": float(map_ * flops / (SIDE // 8) ** 2 / SIDE),
    }


class _AttentionWork:
    """A forward and a backward pass of an attention."""

    def __init__(self, sizes: Measured, mode: str):
        torch.manual_seed(0)
        self.module = attention_of(sizes.attention, sizes.hidden, mode)
        self.queries, self.keys, self.dy = torch.randn(3, sizes.batch, sizes.steps, sizes.hidden)
        self.padding = torch.zeros(sizes.batch, sizes.steps, dtype=torch.bool)

    def __call__(self) -> list[Tensor]:
        self.module.zero_grad()
        inputs = self._inputs()
        self.module(*inputs, self.padding).backward(self.dy)
        return [tensor.grad for tensor in (*inputs, *self.module.parameters())]

    def kept_bytes(self) -> int:
        inputs, results = self._inputs(), []
        tensors = kept_tensors(lambda: results.append(self.module(*inputs, self.padding)))
        return held_bytes(tensors, [*inputs, self.padding, *results, *self.module.parameters()])

    def _inputs(self) -> list[Tensor]:
        return [tensor.clone().requires_grad_() for tensor in (self.queries, self.keys)]


def _attention_works(sizes: Measured) -> list[_AttentionWork]:
    return [_AttentionWork(sizes, mode) for mode in (OFF, ON)]


def _iteration_works(sizes: Measured) -> list[Callable[[], list[Tensor]]]:
    """Give calls that run a forward and a backward pass of the whole model on sentences without padding."""
    torch.manual_seed(0)
    sentences = torch.randint(len(SPECIAL), sizes.tokens, (2, sizes.batch, sizes.steps)).tolist()
    batch = batch_of(sentences[0], [sentence[1:] for sentence in sentences[1]])

    def work(mode: str) -> Callable[[], list[Tensor]]:
        torch.manual_seed(0)
        network = Sizes(sizes.hidden, sizes.hidden, attention=sizes.attention)
        model = Translator(sizes.tokens, sizes.tokens, network, mode)

        def iterate():
            model.zero_grad()
            loss_of(model(batch), batch).backward()
            return [parameter.grad for parameter in model.parameters()]

        return iterate

    return [work(OFF), work(ON)]


def _compared(works: list[Callable[[], object]], runs: int) -> dict:
    kept, again = take_turns(works, runs)
    peaks = [peak_bytes(work) for work in works]
    cases = zip(("kept", "again"), (kept, again), peaks, strict=True)
    result = {name: {"seconds": float(np.median(seconds)), "peak_bytes": peak} for name, seconds, peak in cases}
    return result | {"time": float(np.median(again / kept)), "peak": peaks[1] / peaks[0]}


def _choice(sizes: Measured) -> str:
    """Tell what the rule chooses for these sizes."""
    module: Attention = attention_of(sizes.attention, sizes.hidden, AUTO)
    return ON if module.cost(sizes.batch, sizes.steps, sizes.steps).pays else OFF
