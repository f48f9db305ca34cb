"""The golden trainer as a device: the bits every other device must give."""

import math
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from etalstm.device.api import Session
from etalstm.device.device import Device
from etalstm.device.hooks import Factors
from etalstm.device.results import Outputs
from etalstm.device.shape import TrainingShape
from etalstm.golden.fast.declared import ProductGradients
from etalstm.golden.fast.quantised import IntegerBackward, count_digits, quantised
from etalstm.golden.fast.sums import column_norms
from etalstm.golden.integers import IntegerProduct, Peak
from etalstm.golden.passes import LayerBackward
from etalstm.golden.trainer import (
    Rows,
    integer_backward,
    integer_forward,
    layer_usage,
    network_backward,
    network_forward,
    network_outputs,
    network_update,
)
from etalstm.network.arithmetic import digits
from etalstm.network.execution import FLOAT32
from etalstm.network.exponents import Peaks
from etalstm.network.shape import LayerGradients, LayerParameters, canonical_rows, pytorch_rows
from etalstm.network.storage import KINDS, Usage
from etalstm.network.update_rule import UpdateRule
from etalstm_hw import config

GOLDEN = "golden"


class GoldenSession(Session):
    """A session on the compiled golden trainer. It has no clock: ``cycles`` is 0."""

    reduces = True
    _passes: list[Any]  # of each layer, as the engine gives them
    _results: list[Any]
    _products: list[Any]  # of each matrix

    @staticmethod
    def _host_words(shape: TrainingShape) -> int:
        """Count also gradients, weights and velocities after an update, and of every cell h, c and local gradients.

        Of a cell of several stages: also what the stages before the last give. With delta inputs: also x and h of every
        layer as they were sent. With weights in bf16: also these.
        """
        network = shape.network
        cells = network.layers * shape.steps * shape.batch * network.hidden_size
        tensors = len(KINDS) + 2 + sum(len(stage.outputs) for stage in network.declared.stages[:-1])
        sent = 0 if shape.execution.delta_inputs.off else 2 * cells + math.prod(shape.x_shape)
        copies = 3 if shape.execution.weight_format == FLOAT32 else 4
        return Session._host_words(shape) + copies * network.weights() + tensors * cells + sent

    def _load(self, parameters: list[LayerParameters], velocities: list[LayerParameters]) -> None:
        self._take([Rows.of(entry) for entry in parameters])
        self._speeds = [Rows.of(entry) for entry in velocities]

    def _take(self, layers: list[Rows]) -> None:
        self._layers = layers
        self._read = [rows.read_as(self.shape.execution.weight_format) for rows in layers]

    def _parameters(self) -> list[LayerParameters]:
        return [rows.parameters() for rows in self._layers]

    def _velocities(self) -> list[LayerParameters]:
        return [rows.parameters() for rows in self._speeds]

    def _forward(self, x: np.ndarray, lengths: np.ndarray, h0: np.ndarray, c0: np.ndarray) -> Outputs:
        self._passes = network_forward(
            self._read, x, lengths, h0, c0, execution=self.shape.execution, skipped_cells=self._skipped,
            shared=self._shared, cell=self.shape.network.declared,
        )  # fmt: skip
        return Outputs(*network_outputs(self._passes))

    def _backward(self, dy: np.ndarray, dh: np.ndarray, dc: np.ndarray, delta_threshold: float) -> None:
        products = len(self.shape.network.declared.products)

        def whole(layer: int, result: LayerBackward) -> None:
            if self.when_whole is None:
                return
            for number, product in enumerate(result.products, layer * products):
                self.when_whole(number, _gradients_of(product))

        self._results = network_backward(
            self._read, self._passes, dy, dh, dc, delta_threshold=delta_threshold, execution=self.shape.execution,
            whole=whole, cell=self.shape.network.declared,
        )  # fmt: skip
        self._products = [product for layer in self._results for product in layer.products]

    def _dx(self) -> np.ndarray:
        return self._results[0].dx

    def _initial_state_gradients(self) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([layer.dh0 for layer in self._results]), np.stack([layer.dc0 for layer in self._results])

    def _norm_terms(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return [column_norms(product.weights) for product in self._products], [p.bias for p in self._products]

    def _gradients(self) -> list[LayerGradients]:
        return list(map(_gradients_of, self._products))

    def _take_gradients(self, gradients: list[LayerGradients]) -> None:
        self._products = [
            replace(
                product,
                weights=canonical_rows(taken.weights, product.gates),
                bias=canonical_rows(taken.bias, product.gates),
            )
            for product, taken in zip(self._products, gradients, strict=True)
        ]

    def _update(self, rule: UpdateRule) -> None:
        layers, self._speeds = network_update(self._layers, self._speeds, self._products, rule)
        self._take(layers)

    def _usage(self) -> list[Usage]:
        layers = enumerate(zip(self._passes, self._results, strict=True))
        return [layer_usage(forward, back, self.shape.execution.storage.layer(n)) for n, (forward, back) in layers]

    def _factors(self) -> Factors:
        layers = zip(self._passes, self._results, strict=True)
        return [(back.delta, np.concatenate([p.x_sent, p.h_sent], axis=2)) for p, back in layers]

    def _counters(self) -> dict:
        return {"cycles": 0}


class IntegerSession(GoldenSession):
    """The same with an arithmetic of integers; :class:`etalstm.device.api.Session` chooses the exponents."""

    exact = True

    @staticmethod
    def _host_words(shape: TrainingShape) -> int:
        """Count also mantissas of weights, twice for each pass, integer sums, and mantissas of δ, x and h."""
        network = shape.network
        cells = network.layers * shape.steps * shape.batch * network.hidden_size
        return GoldenSession._host_words(shape) + 5 * network.weights() + 4 * cells

    def _take(self, layers: list[Rows]) -> None:
        self._layers, arithmetic = layers, self.shape.execution.arithmetic
        self._matrices = [quantised(rows.weights, rows.bias, arithmetic) for rows in layers]

    def _products_now(self) -> list[list[IntegerProduct]]:
        """Give the products of each layer with the present exponents; nothing has been quantised with them yet."""
        network, exponents = self.shape.network, self._exponents
        found: list[IntegerProduct] = []
        for layer in range(network.layers):
            sizes = {"x": network.inputs_of(layer)}
            for product in network.declared.products:
                number = len(found)
                widths = tuple(sizes.get(name, network.hidden_size) for name in product.operands)
                of_operands = tuple(map(int, exponents.operands[number, : len(widths)]))
                given = self._matrices[number], self.shape.execution.arithmetic, widths, of_operands
                together = bool(exponents.together[number])
                found.append(IntegerProduct(*given, int(exponents.delta[number]), together=together))
        size = len(network.declared.products)
        return [found[first : first + size] for first in range(0, len(found), size)]

    def _forward(self, x: np.ndarray, lengths: np.ndarray, h0: np.ndarray, c0: np.ndarray) -> Outputs:
        self._multiplied, shape = self._products_now(), self.shape
        self._passes = integer_forward(
            self._multiplied, x, lengths, h0, c0, shape.execution, self._skipped, shape.network.declared
        )
        return Outputs(*network_outputs(self._passes))

    def _backward(self, dy: np.ndarray, dh: np.ndarray, dc: np.ndarray, delta_threshold: float) -> None:
        for layer, now in zip(self._multiplied, self._products_now(), strict=True):
            for product, other in zip(layer, now, strict=True):
                product.delta_exponent, product.delta_peak = other.delta_exponent, Peak()
        self._results = integer_backward(
            self._multiplied, self._passes, dy, dh, dc, delta_threshold, self.shape.network.declared
        )
        self._products = [product for layer in self._results for product in layer.products]

    def _operand_peaks(self) -> Peaks:
        found = Peaks(*(np.zeros(self._exponents.operands.shape, kind) for kind in (np.float64, np.int64)))
        for number, product in enumerate(chain.from_iterable(self._multiplied)):
            for place, peak in enumerate(product.operand_peaks):
                found.largest[number, place], found.saturated[number, place] = peak.largest, peak.saturated
        return found

    def _delta_peaks(self) -> Peaks:
        peaks = [product.delta_peak for layer in self._multiplied for product in layer]
        return Peaks(np.array([p.largest for p in peaks]), np.array([p.saturated for p in peaks]))

    def _norm_terms(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Give norms of rows: with integers the machine has a row's whole gradient where its exponent is."""
        rows = [column_norms(np.ascontiguousarray(product.weights.T)) for product in self._products]
        return rows, [product.bias for product in self._products]

    def _gradient_sums(self) -> list[np.ndarray]:
        return [np.concatenate([p.weight_sums, p.bias_sums[:, None]], axis=1) for p in self._products]

    def _take_gradient_sums(self, sums: list[np.ndarray]) -> None:
        self._products = [
            replace(product, weight_sums=taken[:, :-1], bias_sums=taken[:, -1])
            for product, taken in zip(self._products, sums, strict=True)
        ]

    def _digits(self, layer: int, number: int) -> int:
        """Count the digits that the δ of one of a layer's products is sent as."""
        gradients = self._results[layer].products[number]
        if isinstance(gradients, IntegerBackward):
            return count_digits(gradients.numbers)
        return int(digits(self._multiplied[layer][number].delta_numbers(gradients.delta)).sum())

    def _usage(self) -> list[Usage]:
        peaks, size = self._delta_peaks(), len(self.shape.network.declared.products)
        return [
            replace(
                usage,
                saturated=int(peaks.saturated[layer * size : (layer + 1) * size].sum()),
                delta_digits=sum(self._digits(layer, n) for n in range(size)),
            )
            for layer, usage in enumerate(super()._usage())
        ]


def _gradients_of(product: LayerBackward | ProductGradients) -> LayerGradients:
    return LayerGradients(product.weights, product.bias, partial(pytorch_rows, gates=product.gates))


class GoldenDevice(Device):
    """The golden trainer on this machine's processor; any network fits, and the bits are the same for every preset."""

    plans_steps = False

    def __init__(self, preset: str = "sim"):
        config.preset(preset)  # refuses what the other devices would refuse
        super().__init__(GOLDEN, preset)

    def _create(self, shape: TrainingShape) -> Session:
        return IntegerSession(shape) if shape.execution.arithmetic.exact else GoldenSession(shape)
