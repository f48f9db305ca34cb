"""Sessions whose batch does not fit the machine's memory: parts of it are worked on one after the other."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import chain, islice
from operator import add
from typing import Any

import numpy as np

from etalstm.device.api import Session
from etalstm.device.hooks import Factors
from etalstm.device.machine.session import HardwareSession
from etalstm.device.results import Outputs, add_counts, all_counts
from etalstm.device.shape import TrainingShape
from etalstm.network.slices import Parts, additions
from etalstm.network.storage import DENSE_TENSORS, Usage


def shape_of_part(shape: TrainingShape, parts: Parts) -> TrainingShape:
    """Give the shape of a session that works on one part.

    Where the batch has too few sequences there is padding. With integers the sums of several parts are added.
    """
    one = shape.with_execution(slices=parts.slices_of_part)
    masked = shape.masked or not parts.full
    sums = shape.gradient_sums or (shape.execution.arithmetic.exact and parts.count > 1)
    return replace(one, batch=parts.places, masked=masked, gradient_sums=sums)


def take_part(parts: Parts, part: int, *arrays: tuple[np.ndarray, int]) -> list[np.ndarray]:
    """Take one part out of arrays of the whole batch. Each array comes with the axis of its sequences."""
    return [parts.take(array, part, axis) for array, axis in arrays]


def usage_of_batch(shape: TrainingShape, parts: Parts, usages: list[list[Usage]]) -> list[Usage]:
    """Sum the parts' usages, layer by layer. `usages` has a list for each part, with an entry for each layer.

    Every cell is counted once. Sequences that only fill a part up are not counted.
    """

    def of_batch(number: int, usage: Usage) -> Usage:
        cells, skipped = usage.cells // parts.count, usage.skipped // parts.count
        empty = (parts.count * parts.places - shape.batch) * shape.network.hidden_size
        dense = not shape.execution.storage.layer(number).compressed
        words = usage.words - dense * DENSE_TENSORS * (cells - skipped) * empty
        return replace(usage, cells=cells, skipped=skipped, elements=usage.elements - cells * empty, words=words)

    return [of_batch(number, reduce(add, of_parts)) for number, of_parts in enumerate(zip(*usages, strict=True))]


def join_factors(parts: Parts, factors: list[Factors]) -> Factors:
    """Join the parts' factors of dW, layer by layer. `factors` has a list for each part, with an entry for each layer.

    Whoever measures the factors measures the joined ones: NumPy's sums depend on the arrays' shape.
    """
    layers = (zip(*of_parts, strict=True) for of_parts in zip(*factors, strict=True))
    return [(parts.join(delta, 1), parts.join(xh, 1)) for delta, xh in layers]


class PartedSession(Session):
    """A session that accumulates the gradients of several parts of its batch, with the bits of one that has them all.

    The forward pass runs part by part. The memory holds the intermediates of one part. So the backward pass repeats the
    forward pass of each part but the last, whose intermediates are still there: it begins with that one. The gradients
    stay on the machine, and so does the update.

    `shape` is that of the whole batch, `inner` a session for parts: see :func:`shape_of_part`.
    """

    reduces = takes_intermediates = True

    def __init__(self, shape: TrainingShape, parts: Parts, inner: HardwareSession):
        super().__init__(shape)
        self._parts, self._inner = parts, inner
        self._inputs: list[list] = []  # by part: of its forward pass
        self._sealed: list[list[bytes]] | None = None  # by part: what the host gave in place of the pass
        self._present: int | None = None  # the part whose forward pass is there
        self._results: dict[int, dict[str, Any]] = {}  # of each part's backward pass
        self._counts: dict[str, dict] = {}
        self._moved: dict[str, dict[str, int]] = {"read": {}, "written": {}}

    def _store_as(self, shape):
        self._inner.store_as(shape.execution.storage)

    def _send_as(self, shape):
        self._inner.send_as(shape.execution.delta_inputs)

    def _load(self, parameters, velocities):
        self._inner._load(parameters, velocities)

    def _parameters(self):
        return self._inner._parameters()

    def _velocities(self):
        return self._inner._velocities()

    def _forward(self, x, lengths, h0, c0):
        self._begin()
        inputs = (x, 1), (lengths, 0), (h0, 1), (c0, 1)
        self._inputs, self._sealed = [take_part(self._parts, part, *inputs) for part in self._numbers], None
        outputs = [self._begin_part(part) for part in self._numbers]
        return Outputs(*(self._parts.join([getattr(out, name) for out in outputs], 1) for name in ("y", "h", "c")))

    def _encode(self, layers, skipped):
        parts = [take_part(self._parts, part, *((layer, 2) for layer in layers)) for part in self._numbers]
        return chain.from_iterable([self._inner._encode(part, skipped) for part in parts])

    def _load_intermediates(self, x, h, streams, lengths, sent):
        self._begin()
        count, streams = self._inner.count_streams(), iter(streams)
        given = (x, 1), (h, 2), (lengths, 0), *((array, 1) for array in sent)
        self._inputs, self._sealed = [take_part(self._parts, part, *given) for part in self._numbers], []
        for part in self._numbers:
            self._sealed.append(list(streams if part == self._numbers[-1] else islice(streams, count)))
            self._begin_part(part)

    def _make_intermediates(self, part: int) -> Outputs | None:
        """Run the forward pass of a part, or load its intermediates, so that the memory holds them."""
        if self._sealed is None:
            self._inner._shared = self._shared.of_sequences(self._parts.sequences(part)) if self._shared else None
            return self._inner._forward(*self._inputs[part])
        x, h, lengths, *sent = self._inputs[part]
        return self._inner._load_intermediates(x, h, self._sealed[part], lengths, sent)

    def _shared_scalars(self):
        return sum(self._read_of_all("shared_scalars"))

    def _backward(self, dy, dh, dc, delta_threshold):
        aside, merges = 0, iter(additions(self._parts.count, backwards=True))
        for part in self._backward_parts(dy, dh, dc, delta_threshold):
            for _ in range(next(merges)):
                aside -= 1
                self._inner.accumulate(f"add {aside}")
                self._add_counts()
            if part:
                self._inner.accumulate(f"keep {aside}")
                self._add_counts()
                aside += 1
        self._report_gradients()

    def _backward_parts(self, dy: np.ndarray, dh: np.ndarray, dc: np.ndarray, delta_threshold: float) -> Iterator[int]:
        """Run the backward pass of each part, the last one first; give it while the memory has its gradients."""
        self._arriving, self._delta_threshold = ((dy, 1), (dh, 1), (dc, 1)), delta_threshold
        for part in reversed(self._numbers):
            self._gradients_of_part(part)
            self._results[part] = self._read_results()
            yield part

    def _gradients_of_part(self, part: int) -> None:
        """Run the backward pass of a part, so that the memory holds its gradients."""
        if part != self._present:
            self._begin_part(part)
        dy, dh, dc = take_part(self._parts, part, *self._arriving)
        self._inner._backward(dy, dh, dc, self._delta_threshold)
        self._present = None
        self._add_counts()

    def _read_results(self) -> dict:
        inner, states = self._inner, self._inner._initial_state_gradients()
        found = {"dx": inner._dx(), "dh0": states[0], "dc0": states[1], "usage": inner._usage()}
        return found | ({"shared_scalars": inner._shared_scalars()} if self._shared else {})

    def _dx(self):
        return self._parts.join(self._read_of_all("dx"), 1)

    def _initial_state_gradients(self):
        return tuple(self._parts.join(self._read_of_all(name), 1) for name in ("dh0", "dc0"))

    def _norm_terms(self):
        return self._inner._norm_terms()

    def _gradients(self):
        return self._inner._gradients()

    def _take_gradients(self, gradients):
        self._inner._take_gradients(gradients)

    def _update(self, rule):
        self._inner._update(rule)
        self._add_counts()

    def _scrub(self):
        self._inner._scrub()

    def _usage(self):
        return usage_of_batch(self.shape, self._parts, self._read_of_all("usage"))

    def _factors(self):
        """Run all parts again. The gradients of the whole batch are put aside meanwhile."""
        self._put_aside()
        stage, factors = self._stage, []
        self._stage = "loaded"  # if the gradients do not come back, there are none
        try:
            for part in self._numbers:
                self._gradients_of_part(part)
                factors.append(self._inner._factors())
        finally:
            self._bring_back()
            self._stage = stage
        return join_factors(self._parts, factors)

    def _put_aside(self) -> None:
        """Put the gradients of the whole batch aside."""
        self._inner.accumulate("keep 0")
        self._add_counts()

    def _bring_back(self) -> None:
        """Bring them back."""
        self._inner.accumulate("restore 0")
        self._add_counts()

    def _counters(self):
        return all_counts(self._counts)

    def _memory(self):
        return self._inner._memory() | {"host": self._moved_so_far(), "parts": self._parts.count}

    def _moved_so_far(self) -> dict[str, dict[str, int]]:
        """Add the words that the host moves for the present part to those of the parts before."""
        present = self._inner.windows.moved
        return {way: dict(Counter(kinds) + Counter(present[way])) for way, kinds in self._moved.items()}

    @property
    def _numbers(self) -> range:
        return range(self._parts.count)

    def _read_of_all(self, name: str) -> list:
        return [self._results[part][name] for part in self._numbers]

    def _begin(self) -> None:
        self._counts, self._present = {}, None
        self._moved = {"read": {}, "written": {}}
        self._inner._skipped = self._skipped
        self._inner.windows.count_anew()

    def _begin_part(self, part: int):
        """Make a part the present one: the memory holds its intermediates afterwards."""
        self._present, self._moved = None, self._moved_so_far()  # a part's forward pass begins to count anew
        result = self._make_intermediates(part)
        self._present = part
        self._add_counts()
        return result

    def _add_counts(self) -> None:
        """Add up the programs' counts. Accumulation counts as a part of the backward pass."""
        for name, counts in self._inner.take_counts().items():
            name = name if name in ("forward", "update") else "backward"
            self._counts[name] = add_counts([self._counts[name], counts]) if name in self._counts else counts
