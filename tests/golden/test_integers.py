"""The reference with integers against the definition in plain Python integers, and against the mathematics."""

from fractions import Fraction

import numpy as np
import pytest

from etalstm.golden.activation import sigmoid, tanh
from etalstm.golden.arithmetic import add, multiply
from etalstm.golden.fast import dots, integers, quantised
from etalstm.golden.integers import IntegerProduct, QuantisedMatrix
from etalstm.golden.passes import active_steps
from etalstm.golden.product import FloatProduct
from etalstm.golden.reference import DENSE, cell_backward, cell_forward
from etalstm.host import native
from etalstm.network.arithmetic import INT8, INT16, digits, exponent_of, most
from etalstm.network.cells.lstm import LSTM
from etalstm.network.delta_inputs import OFF, LayerInputs
from etalstm.network.storage import LayerStorage
from tests.golden.test_passes import assert_same_bits, layer

ONE = np.float32(1)


def power(exponent):
    """Two to a power, exactly."""
    return Fraction(2) ** exponent


def least_exponent(value):
    """E by its definition."""
    exponent = -126
    while value and value >= power(exponent):
        exponent += 1
    return exponent


def mantissa(value, exponent, bits):
    """Q by its definition, of one number."""
    limit = 16319 if bits == 15 else 2 ** (bits - 1) - 1
    return max(-limit, min(limit, round(Fraction(float(value)) * power(bits - 1 - exponent))))  # round is to even


def to_float32(total, exponent):
    """The definition's ``scaled``: an integer as float32, once rounded, times a power of two."""
    exact = Fraction(float(np.float32(total))) * power(exponent)
    if abs(exact) < power(-126):
        return np.float32(0)
    return np.float32(float(exact)) if abs(exact) < power(128) else np.float32(np.copysign(np.inf, total))


class Plain:
    """An LSTM layer by the definition: sums one term after the other, in any order, of plain integers."""

    def __init__(self, weights, bias, arithmetic, x_exponent, delta_exponent, order, together=False):
        self.p, self.n, self.order, self.together = arithmetic.bits, arithmetic.delta_bits, order, together
        self.exponents = [least_exponent(Fraction(float(np.abs(row).max()))) for row in weights]
        self.w = [[mantissa(v, e, self.p) for v in row] for row, e in zip(weights, self.exponents, strict=True)]
        self.bias, self.e_x, self.e_delta = bias, x_exponent, delta_exponent
        self.inputs, self.rows = weights.shape[1] - len(weights) // 4, range(len(weights))

    def total(self, terms):
        return sum(self.order(list(terms)))

    def exponent(self, column):
        return self.e_x if column < self.inputs else 0

    def operands(self, xh):
        return [mantissa(v, self.exponent(k), self.p) for k, v in enumerate(xh)]

    def gates(self, m):
        found = []
        for r in self.rows:
            z = self.bias[r]
            apart = (range(self.inputs), self.e_x), (range(self.inputs, len(m)), 0)
            for columns, e in ((range(len(m)), 0),) if self.together else apart:
                sums = self.total(self.w[r][k] * m[k] for k in columns)
                z = add(z, to_float32(sums, self.exponents[r] + e - 2 * (self.p - 1)))
            found.append(z)
        return np.array(found, np.float32)

    def sends(self, k, now, last, threshold):
        """An element is sent if it has changed by Θ, and by one step of its grid at least."""
        return abs(now - last) >= max(Fraction(threshold) * power(self.p - 1 - self.exponent(k)), 1)

    def deltas(self, delta):
        return [
            mantissa(Fraction(float(d)) * power(e), self.e_delta, self.n)
            for d, e in zip(delta, self.exponents, strict=True)
        ]

    def below(self, big_d):
        unit = self.e_delta - (self.n - 1) - (self.p - 1)
        sums = [self.total(self.w[r][k] * big_d[r] for r in self.rows) for k in range(len(self.w[0]))]
        return np.array([to_float32(s, unit) for s in sums], np.float32)

    def weight_gradient(self, terms):
        """dW and db of terms (D, D', m)."""
        unit = self.e_delta - (self.n - 1)
        dw = [
            [
                to_float32(
                    self.total(d[r] * m[k] for d, _, m in terms),
                    unit - self.exponents[r] + self.exponent(k) - (self.p - 1),
                )
                for k in range(len(self.w[0]))
            ]
            for r in self.rows
        ]
        db = [to_float32(self.total(whole[r] for _, whole, _ in terms), unit - self.exponents[r]) for r in self.rows]
        return np.array(dw, np.float32), np.array(db, np.float32)


def plain_passes(plain, x, h0, c0, active, dy, dh, dc, threshold, inputs=OFF):
    """Both passes of a layer without storage or skipped cells."""
    steps, batch = active.shape
    h, c = np.zeros((steps + 1, *h0.shape), np.float32), np.zeros((steps + 1, *h0.shape), np.float32)
    h[0], c[0] = h0, c0
    m, own, of_gates = {}, {}, {}
    for t in range(steps):
        for b in range(batch):
            if not active[t, b]:
                h[t + 1, b], c[t + 1, b] = h[t, b], c[t, b]
                continue
            now = m[t, b] = plain.operands(np.concatenate([x[t, b], h[t, b]]))
            if t and not inputs.off:
                thresholds = [inputs.x] * plain.inputs + [inputs.h] * (len(now) - plain.inputs)
                pairs = zip(now, m[t - 1, b], thresholds, strict=True)
                m[t, b] = [n if plain.sends(k, n, last, least) else last for k, (n, last, least) in enumerate(pairs)]
            own[t, b] = np.array(now) == m[t, b]
            z = plain.gates(m[t, b]).reshape(-1, 4)
            i, f, g, o = sigmoid(z[:, 0]), sigmoid(z[:, 1]), tanh(z[:, 2]), sigmoid(z[:, 3])
            c[t + 1, b] = add(multiply(f, c[t, b]), multiply(i, g))
            bent = tanh(c[t + 1, b])
            h[t + 1, b] = multiply(o, bent)
            of_gates[t, b] = i, f, g, o, bent
    dx, terms = np.zeros_like(x), []
    collected = np.full((batch, x.shape[2] + h0.shape[1]), np.float32(-0.0))
    dh, dc = dh.copy(), dc.copy()
    for t in reversed(range(steps)):
        for b in range(batch):
            dh[b] = add(dy[t, b], dh[b])
            if not active[t, b]:
                continue
            i, f, g, o, bent = of_gates[t, b]
            through = add(dc[b], multiply(dh[b], multiply(o, add(ONE, -multiply(bent, bent)))))
            delta = np.stack([
                multiply(through, multiply(multiply(g, i), add(ONE, -i))),
                multiply(through, multiply(multiply(c[t, b], f), add(ONE, -f))),
                multiply(through, multiply(i, add(ONE, -multiply(g, g)))),
                multiply(dh[b], multiply(multiply(bent, o), add(ONE, -o))),
            ], axis=1).ravel()  # fmt: skip
            left = np.where(np.abs(delta) < np.float32(threshold), np.float32(0), delta)
            big_d = plain.deltas(left)
            terms.append((big_d, plain.deltas(delta), m[t, b]))
            collected[b] = add(collected[b], plain.below(big_d))
            below = np.where(own[t, b], collected[b], np.float32(0))
            collected[b] = np.where(own[t, b], np.float32(-0.0), collected[b])
            dx[t, b], dh[b] = below[: plain.inputs], below[plain.inputs :]
            dc[b] = multiply(through, f)
    dw, db = plain.weight_gradient(terms)
    return {"h": h, "c": c, "dx": dx, "dh0": dh, "dc0": dc, "dw": dw, "db": db}


def product_of(weights, bias, arithmetic, x, delta_exponent, together=False):
    inputs = x.shape[2]
    exponents = 0 if together else int(exponent_of(np.abs(x).max())), 0
    matrix = QuantisedMatrix.of(FloatProduct(weights, bias), arithmetic)
    widths = inputs, weights.shape[1] - inputs
    return IntegerProduct(matrix, arithmetic, widths, exponents, delta_exponent, together=together)


def passes(product, x, h0, c0, active, dy, dh, dc, threshold=0.0, storage=DENSE, inputs=OFF, slices=1):
    forward, broadcasts = cell_forward(LSTM, [product], x, h0, c0, active, storage, None, inputs)
    given = forward, broadcasts, dy, dh, dc, threshold, slices
    dx, dh0, dc0, [(dw, db, delta)] = cell_backward(LSTM, [product], *given)
    found = {"h": forward.h, "c": forward.c, "dx": dx, "dh0": dh0, "dc0": dc0, "dw": dw, "db": db}
    return found, delta


ORDERS = {"as they come": list, "reversed": lambda terms: terms[::-1], "sorted": sorted}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("arithmetic", [INT8, INT16, INT8.with_delta_bits(15), INT8.with_delta_bits(8)])
@pytest.mark.parametrize(
    ("threshold", "inputs", "together"),
    [
        (0.0, OFF, False),
        (0.02, OFF, True),
        (0.02, LayerInputs(0.4, 0.05, 0), False),
        (0.0, LayerInputs(0.0, 0.3, 0), True),
    ],
)
def test_the_reference_has_the_bits_of_plain_integers_added_in_any_order(
    arithmetic, threshold, inputs, together, order
):
    arguments = layer(np.random.default_rng(3), steps=4, batch=3, inputs=3, units=4)
    weights, bias, x, *rest = arguments
    x = np.tanh(x) if together else x
    product = product_of(weights, bias, arithmetic, x, delta_exponent=1, together=together)
    found, _ = passes(product, x, *rest, threshold, inputs=inputs)
    e_x = product.operand_exponents[0]
    plain = Plain(weights, bias, arithmetic, e_x, 1, ORDERS[order], together)
    for name, array in plain_passes(plain, x, *rest, threshold, inputs).items():
        assert_same_bits(name, found[name], array)


def fast_passes(product, x, h0, c0, active, dy, dh, dc, threshold=0.0, storage=DENSE, inputs=OFF, skipped=None):
    forward = integers.layer_forward(product, x, h0, c0, active, storage, skipped, inputs)
    back = integers.layer_backward(forward, dy, dh, dc, threshold)
    names = {name: getattr(forward, name) for name in ("h", "c", "kept")}
    return names | {name: getattr(back, name) for name in ("dx", "dh0", "dc0", "weights", "bias", "delta")}


def reference_passes(product, x, h0, c0, active, dy, dh, dc, threshold=0.0, storage=DENSE, inputs=OFF, skipped=None):
    forward, broadcasts = cell_forward(LSTM, [product], x, h0, c0, active, storage, skipped, inputs)
    dx, dh0, dc0, [(dw, db, delta)] = cell_backward(LSTM, [product], forward, broadcasts, dy, dh, dc, threshold)
    names = {name: getattr(forward, name) for name in ("h", "c", "kept")}
    return names | {"dx": dx, "dh0": dh0, "dc0": dc0, "weights": dw, "bias": db, "delta": delta}


def masked(arguments, generator):
    """Give lengths to the sequences of a layer's arguments."""
    weights, bias, x, h0, c0, active, dy, dh, dc = arguments
    active = active_steps(generator.integers(1, len(x) + 1, x.shape[1]), len(x))
    return weights, bias, x, h0, c0, active, np.where(active[:, :, None], dy, np.float32(0)), dh, dc


COMPILED = {"compiled": None, "without a compiler": dots.Addresses()}


@pytest.mark.parametrize("found", COMPILED)
@pytest.mark.parametrize(
    "arithmetic", [INT8, INT16, INT8.with_delta_bits(15)], ids=lambda a: f"{a.name} {a.delta_bits}"
)
@pytest.mark.parametrize("inputs", [OFF, LayerInputs(0.0, 0.0, 0), LayerInputs(0.3, 0.1, 0), LayerInputs(0.3, 0.1, 2)])
@pytest.mark.parametrize(
    ("storage", "threshold", "together"), [(DENSE, 0.0, True), (LayerStorage("ms1-bf16", (0.05,) * 6), 0.01, False)]
)
def test_compiled_has_the_bits_of_the_reference(monkeypatch, found, arithmetic, inputs, storage, threshold, together):
    if COMPILED[found]:
        monkeypatch.setattr(integers, "addresses", lambda: COMPILED[found])
    generator = np.random.default_rng(5)
    weights, bias, x, *rest = masked(layer(generator, steps=5, batch=7, inputs=9, units=13), generator)
    x = np.cumsum(x * np.float32(0.3), axis=0, dtype=np.float32)  # so that some elements change little
    x = np.tanh(x) if together else x
    skipped = np.array([False, True, False, False, False])
    given = (x, *rest, threshold, storage, inputs, skipped)
    products = [product_of(weights, bias, arithmetic, x, -1, together) for _ in range(2)]
    expected = reference_passes(products[0], *given)
    for name, array in fast_passes(products[1], *given).items():
        assert_same_bits(name, array, expected[name])
    assert products[0].delta_peak == products[1].delta_peak


@pytest.fixture(params=["this processor", "any processor", "no compiler"])
def places(request, monkeypatch):
    """Where the C functions are, compiled for this processor or, without its vector instructions, for any."""
    if request.param == "no compiler":
        return dots.Addresses()
    if request.param == "any processor":
        monkeypatch.setattr(native, "FLAGS", tuple(flag for flag in native.FLAGS if flag != "-march=native"))
        monkeypatch.setattr(dots, "library", native.library.__wrapped__)
        monkeypatch.setattr(dots, "_library", dots._library.__wrapped__)
    return dots.addresses.__wrapped__()


@pytest.mark.parametrize("density", [1.0, 0.1])
@pytest.mark.parametrize(("most_of_a", "most_of_b"), [(127, 127), (16319, 127), (32767, 32767)])
@pytest.mark.filterwarnings("error")  # that it was not compiled
def test_sums_of_the_largest_numbers_are_exact(places, density, most_of_a, most_of_b):
    generator = np.random.default_rng(8)
    a, b = np.full((7, 1100), most_of_a, np.int16), np.full((1100, 70), most_of_b, np.int16)
    a[1], a[2, ::2], b[:, 1] = -most_of_a, -most_of_a, -most_of_b
    a[3:] = generator.integers(-most_of_a, most_of_a + 1, (4, 1100))
    a *= generator.random(a.shape) < density
    expected, factor = a.astype(np.int64) @ b.astype(np.int64), dots.factor_of(b)
    kind = dots.kind_of(1100, most_of_a * most_of_b)
    sums = np.full((7, factor.rows.shape[1]), kind.zero)
    dots.add_products(places, kind, a, factor, sums, np.empty(1100, np.int64))
    np.testing.assert_array_equal(sums[:, :70], expected)


def test_digits_are_counted_as_defined():
    numbers = np.arange(-most(15), most(15) + 1, dtype=np.int16).reshape(127, -1)
    assert quantised.count_digits(numbers) == digits(numbers).sum()


@pytest.mark.parametrize("inputs", [OFF, LayerInputs(0.3, 0.1, 0), LayerInputs(0.3, 0.1, 2)])
def test_what_is_sent_is_counted_from_mantissas_as_from_values(inputs):
    generator = np.random.default_rng(6)
    weights, bias, x, *rest = masked(layer(generator, steps=5, batch=7, inputs=9, units=13), generator)
    product = product_of(weights, bias, INT8, x, delta_exponent=-1)
    forward = integers.layer_forward(product, x, *rest[:3], delta_inputs=inputs)
    for mantissas, values in zip(forward.sent, (forward.x_sent, forward.h_sent), strict=True):
        np.testing.assert_array_equal(inputs.broadcast(mantissas), inputs.broadcast(values))


def test_a_matrix_is_laid_out_alike_with_and_without_a_compiler(monkeypatch):
    matrix = np.random.default_rng(9).integers(-1000, 1000, (77, 300)).astype(np.int16)
    parts = [(matrix[:, :41], matrix[:, 100:207]), (matrix[3:, 5:].T,), (matrix.T[2:90], matrix.T[12:100])]
    compiled = [dots.factor_of(*of) for of in parts]
    monkeypatch.setattr(dots, "_library", lambda: None)
    for of, factor in zip(parts, compiled, strict=True):
        np.testing.assert_array_equal(factor.rows[: len(of[0]), : sum(p.shape[1] for p in of)], np.hstack(of))
        for found, expected in zip(dots.factor_of(*of), factor, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_without_a_threshold_delta_inputs_are_the_dense_network_and_a_refresh_changes_nothing():
    generator = np.random.default_rng(6)
    weights, bias, x, *rest = masked(layer(generator, steps=6, batch=4, inputs=5, units=6), generator)
    dense = fast_passes(product_of(weights, bias, INT8, x, -1), x, *rest)
    for inputs in (LayerInputs(0.0, 0.0, 0), LayerInputs(0.0, 0.0, 3)):
        for name, array in fast_passes(product_of(weights, bias, INT8, x, -1), x, *rest, inputs=inputs).items():
            assert_same_bits(name, array, dense[name])
    sent = [
        fast_passes(product_of(weights, bias, INT8, x, -1), x, *rest, inputs=LayerInputs(0.4, 0.1, r)) for r in (0, 2)
    ]
    for name, array in sent[0].items():
        assert_same_bits(name, array, sent[1][name])
    assert not np.array_equal(sent[0]["h"], dense["h"])
