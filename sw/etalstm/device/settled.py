"""Passes with integers: they run again as long as their exponents do not fit, see :mod:`etalstm.network.exponents`."""

import numpy as np

from etalstm.device.hooks import SessionHooks
from etalstm.device.results import Outputs
from etalstm.errors import DeviceError
from etalstm.network.arithmetic import Arithmetic

MOST_TRIES = 64  # a first iteration takes one for each matrix that δ goes through one after the other, and one more


class SettledPasses(SessionHooks):
    """Runs the hooks of both passes, with integers until their exponents fit.

    `exact` tells whether the device computes with integers.
    """

    exact = False

    def _check_arithmetic(self, arithmetic: Arithmetic) -> None:
        if arithmetic.exact and not self.exact:
            raise DeviceError(f"this device computes in float32: arithmetic cannot be {arithmetic.name}")

    def _pass_forward(self, x: np.ndarray, lengths: np.ndarray, h0: np.ndarray, c0: np.ndarray) -> Outputs:
        """Run forward; with integers again as long as too many operands saturate."""
        if not self.shape.execution.arithmetic.exact:
            return self._forward(x, lengths, h0, c0)
        network, real = self.shape.network, self._begin_exponents(x, lengths, h0)
        for _ in range(MOST_TRIES):
            outputs = self._forward(x, lengths, h0, c0)
            if self._exponents.settle_operands(self._operand_peaks(), int(real.sum()) * network.hidden_size):
                return outputs
        raise DeviceError(f"the exponents of operands have not settled in {MOST_TRIES} passes")

    def _begin_exponents(self, x: np.ndarray, lengths: np.ndarray, h0: np.ndarray) -> np.ndarray:
        """Choose the exponent of x; give which steps are no padding, bool, (T, B)."""
        network, real = self.shape.network, np.arange(len(x))[:, None] < lengths
        if network.declared.output in network.declared.within_one and np.abs(h0).max() > 1:
            raise ValueError(
                f"h0 must be from -1 to 1 with arithmetic {self.shape.execution.arithmetic.name}, got "
                f"{h0.flat[np.abs(h0).argmax()]}"
            )
        self._exponents.begin(float(np.abs(x[real]).max()))
        return real

    def _pass_backward(self, dy: np.ndarray, dh: np.ndarray, dc: np.ndarray, delta_threshold: float) -> None:
        """Run backward; with integers again as long as too many δ saturate."""
        if not self.shape.execution.arithmetic.exact:
            self._backward(dy, dh, dc, delta_threshold)
            return
        for _ in range(MOST_TRIES):
            self._backward(dy, dh, dc, delta_threshold)
            if self._exponents.settle_delta(self._delta_peaks(), self._elements_of_delta()):
                self._complete_gradients()
                return
        raise DeviceError(f"the exponents of δ have not settled in {MOST_TRIES} passes")

    def _elements_of_delta(self) -> np.ndarray:
        """Count the elements of each product's δ in the last pass, without padding and skipped cells: int64, (P,)."""
        real = np.arange(self._steps)[:, None] < self._lengths
        steps = np.array([real[~skipped].sum() for skipped in self._skipped])
        products = len(self.shape.network.declared.products)
        return np.repeat(steps, products) * [matrix.rows for matrix in self.shape.network.matrices]
