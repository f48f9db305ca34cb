"""Sessions on a machine whose products are integers: what the host gives it besides, and what it asks of it."""

import numpy as np

from etalstm.device.machine.integer_measures import IntegerMeasures, PassExponents, integers_of, noted_of, whole_sums
from etalstm.device.machine.session import HardwareSession
from etalstm.device.results import add_counts
from etalstm.errors import DeviceError
from etalstm.network.arithmetic import quantise, scaled
from etalstm.network.delta_inputs import last_sent, least_change
from etalstm.network.exponents import Peaks
from etalstm.network.shape import canonical_rows, pytorch_rows
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.digits import Digits
from etalstm.plan.memory.integer_arrays import Constant
from etalstm.plan.memory.integer_changes import HELD_EXPONENT, bound_of
from etalstm.plan.memory.sent import threshold_parameters
from etalstm.plan.passes.weights import needed_scale
from etalstm.plan.plan import FINISH, REFRESH
from etalstm_hw import contract
from etalstm_hw.config import Config


class IntegerHardwareSession(HardwareSession):
    """A session whose passes are programs of products of integers.

    The host chooses the exponents, as golden does, and writes them before each pass. It quantises what enters the
    network: x and the initial states.
    """

    exact = True
    takes_intermediates = False  # integers of x and h, and largest sizes, would be missing

    def _planned(self, shape, **options):
        return super()._planned(shape, together=bool(self._exponents.together[0]), **options)

    def _forward(self, x, lengths, h0, c0):
        """Plan anew first if the session's layers follow others, at a stage of a pipeline: the exponents tell that."""
        if integers_of(self._map.layers[0]).together != self._exponents.together[0]:
            self._adopt(self._planned(self.shape))
        return super()._forward(x, lengths, h0, c0)

    def _finish_weights(self):
        """Make integers of the weights."""
        self._write_constants()
        return {REFRESH: self._run(REFRESH)}

    def _write_constants(self) -> None:
        """Write the exponents of all layers, as they are now."""
        arithmetic, (delta, operands, _) = self.shape.execution.arithmetic, self._exponents.now
        self._how = PassExponents(arithmetic, delta.copy(), operands.copy())
        weight, n = arithmetic.bits - 1, arithmetic.delta_bits - 1
        for arrays, of_delta, of_operands in zip(self._map.layers, delta.tolist(), operands.tolist(), strict=True):
            x, h = of_operands
            values = {
                Constant.X: x - 2 * weight,
                Constant.H: h - 2 * weight,
                Constant.PLACES: weight,
                Constant.DELTA_PLACES: n - of_delta,
                Constant.BELOW: of_delta - n - weight,
                Constant.BIAS: of_delta - n,
                Constant.GRADIENT_X: of_delta - n + x - weight,
                Constant.GRADIENT_H: of_delta - n + h - weight,
                Constant.HELD: HELD_EXPONENT,
                Constant.HELD_PLACES: -HELD_EXPONENT,
            }
            array = integers_of(arrays).constants
            words = np.broadcast_to(
                np.array([values[n] for n in range(Constant.COUNT)], np.int32)[:, None], array.words
            )
            self.windows.write_words(array, words.view(np.float32))

    def _run_forward(self):
        self._write_constants()
        super()._run_forward()

    def _prepare(self, x, lengths):
        super()._prepare(x, lengths)
        real = np.where(self._active[:, :, None], self._inputs[0], np.float32(0))
        exponents = self._exponents.now[1]
        self._write_inputs(real, int(exponents[0, 0]))
        for arrays, h0, (_, of_h) in zip(self._map.layers, self._inputs[2], exponents.tolist(), strict=True):
            integers, numbers = self._quantised(h0[None], of_h), integers_of(arrays)
            self._write_numbers(numbers.output.digits, integers)
            if numbers.changes:
                self._write_numbers(numbers.changes["h"].digits, integers)

    def _quantised(self, values: np.ndarray, exponent: int) -> np.ndarray:
        return quantise(values, exponent, self.shape.execution.arithmetic.bits)[0]

    def _write_inputs(self, x: np.ndarray, exponent: int) -> None:
        """Write the integers of x, (T, B, I): with delta inputs what they are sent as, and how that changes."""
        arrays, integers = integers_of(self._map.layers[0]), self._quantised(x, exponent)
        sent = integers
        if arrays.changes:
            threshold, bits = self.shape.execution.delta_inputs.layer(0).x, self.shape.execution.arithmetic.bits
            sent = last_sent(integers, least_change(threshold, bits, exponent), self._active)
            self._write_numbers(arrays.changes["x"].digits, np.diff(sent, axis=0, prepend=np.zeros_like(sent[:1])))
            self._write_numbers(arrays.changes["x"].others, (sent != integers).astype(np.int8))
        self._write_numbers(arrays.operands["x"].digits, sent)

    def _write_tokens(self):
        """Give each group of channels the integers of its distinct tokens, and which of them each step has."""
        tokens, division = integers_of(self._map.layers[0]).tokens, self._map.division
        assert tokens, "a shape that shares tokens has arrays for them"
        x = np.zeros((1, division.count * tokens.count, self.shape.network.input_size), np.float32)
        chosen = np.zeros((self._steps, division.batch, tokens.partition.size), np.int16)
        for group, of_group in enumerate(self._shared_by_groups()):
            x[0, group * tokens.count :][: of_group.count] = of_group.x
            sequences = division.sequences(group)
            step, place = np.nonzero(of_group.numbers >= 0)
            for byte, power in enumerate(tokens.powers):
                chosen[step, sequences[place], tokens.first_of(byte) + of_group.numbers[step, place]] = 1 << power
        self._write_numbers(tokens.x, self._quantised(x, int(self._exponents.now[1][0, 0])))
        self._write_numbers(tokens.chosen, chosen)
        words = np.broadcast_to(tokens.scale_words[:, None], tokens.scales.words)
        self.windows.write_words(tokens.scales, words.view(np.float32))

    def _write_numbers(self, digits: Digits, integers: np.ndarray) -> None:
        """Write the first entries of an array, (N, B, K)."""
        self.windows.write_words(digits.section(len(integers)), digits.words(integers).view(np.float32))

    def _set_input_thresholds(self) -> None:
        """Set by which parameters changes become zero; no digit of one is below the threshold of digits."""
        delta_inputs, layers = self.shape.execution.delta_inputs, self.shape.network.layers
        for threshold, numbers in threshold_parameters(delta_inputs, layers).items():
            self._accelerator.set_parameter(numbers.threshold, needed_scale(bound_of(threshold)))
        self._accelerator.set_parameter(contract.PARAMETER_DELTA_THRESHOLD, np.float32(0))

    def _run_backward(self, dy, dh, dc, delta_threshold):
        self._write_constants()
        super()._run_backward(dy, dh, dc, delta_threshold)

    def _operand_peaks(self) -> Peaks:
        shape = self._exponents.operands.shape
        return Peaks(np.zeros(shape), np.zeros(shape, np.int64))

    def _delta_peaks(self) -> Peaks:
        noted = [noted_of(self.windows, arrays) for arrays in self._map.products]
        places = self.shape.execution.arithmetic.delta_bits - 1 - self._exponents.now[0]
        largest = [each.largest(int(place)) for each, place in zip(noted, places, strict=True)]
        return Peaks(np.array(largest), np.array([each.clamped for each in noted], np.int64))

    def _load_intermediates(self, x, h, streams, lengths, sent):
        raise DeviceError("with integers a machine takes no intermediates of the host's: it makes its own")

    def _report_above(self, layer):
        """Report nothing while a pass runs: it may be run again with other exponents."""

    def _complete_gradients(self):
        if self.shape.gradient_sums:
            self._take_gradient_sums(self._gradient_sums())
        super()._report_above(-1)

    def _gradient_sums(self):
        if not self.shape.gradient_sums:
            raise DeviceError("the machine keeps no sums of gradients: TrainingShape has no gradient_sums")
        return list(map(self._sums_of, self._map.layers))

    def _sums_of(self, arrays: LayerArrays) -> np.ndarray:
        low = integers_of(arrays).low_words
        assert low, "a plan with sums of gradients has their low words"
        weights = whole_sums(self.windows.read(arrays.gradient), self.windows.read(low).view(np.int32))
        bias = self.windows.read(arrays.bias_gradient).view(np.int32)
        return canonical_rows(np.concatenate([weights, bias[:, None]], axis=1), arrays.tiling.gates)

    def _take_gradient_sums(self, sums):
        """Write dW's sums as float32, which the machine finishes, and db."""
        of_delta = self._how.delta - (self._how.arithmetic.delta_bits - 1)
        for arrays, exponent, taken in zip(self._map.layers, of_delta, sums, strict=True):
            rows = pytorch_rows(taken, arrays.tiling.gates)
            of_rows = self.windows.read(integers_of(arrays).exponents).view(np.int32)
            self.windows.write(arrays.gradient, rows[:, :-1].astype(np.float32))
            self.windows.write(arrays.bias_gradient, scaled(rows[:, -1], exponent - of_rows))
        counts, before = self._run(FINISH), self._counts.get("backward")
        self._counts["backward"] = add_counts([before, counts]) if before else counts

    def _norm_terms(self):
        products, read = self._map.products, self.windows.read
        pairs = [(read(each.norms), read(each.bias_gradient)) for each in products]
        canonical = [
            [canonical_rows(values, each.tiling.gates) for values in pair]
            for each, pair in zip(products, pairs, strict=True)
        ]
        return [norms for norms, _ in canonical], [bias for _, bias in canonical]

    def _measures(self) -> IntegerMeasures:
        return IntegerMeasures(self._map, self.windows, self._skipped, self._how)


def session_class(config: Config) -> type[HardwareSession]:
    """Give what a machine's sessions are made of."""
    return IntegerHardwareSession if config.integers else HardwareSession
