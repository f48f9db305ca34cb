"""Sessions with integers whose batch does not fit the machine's memory: the host adds the sums of its parts."""

import numpy as np

from etalstm.device.machine.parts import PartedSession
from etalstm.network.exponents import Peaks
from etalstm_hw.config import Config


class IntegerPartedSession(PartedSession):
    """A session that works on the parts of its batch one after the other, with products of integers.

    The sums of the parts' gradients are exact, so the host adds them in any order. The machine finishes the totals.
    """

    exact = True
    takes_intermediates = False

    def _forward(self, x, lengths, h0, c0):
        self._inner._set_exponents(*self._exponents.now)
        return super()._forward(x, lengths, h0, c0)

    def _backward(self, dy, dh, dc, delta_threshold):
        self._inner._set_exponents(*self._exponents.now)
        self._sums: list[np.ndarray] = []
        peaks = []
        for _ in self._backward_parts(dy, dh, dc, delta_threshold):
            of_part = self._inner._gradient_sums()
            self._sums = [a + b for a, b in zip(self._sums, of_part, strict=True)] if self._sums else of_part
            peaks.append(self._inner._delta_peaks())
        self._peaks = Peaks.together(peaks)

    def _complete_gradients(self):
        self._take_gradient_sums(self._sums)
        super()._complete_gradients()

    def _operand_peaks(self):
        return self._inner._operand_peaks()  # of an LSTM: none moves an exponent

    def _delta_peaks(self):
        return self._peaks

    def _gradient_sums(self):
        return self._sums

    def _take_gradient_sums(self, sums):
        self._sums = sums
        self._inner._take_gradient_sums(sums)
        self._add_counts()

    def _put_aside(self):
        """The host has the sums."""

    def _bring_back(self):
        self._take_gradient_sums(self._sums)


def parted_class(config: Config) -> type[PartedSession]:
    """Give what sessions are made of that work on parts of their batch."""
    return IntegerPartedSession if config.integers else PartedSession
