"""Delta inputs: the reference computes what the definition says, one scalar at a time."""

import numpy as np
import pytest

from etalstm.golden import reference
from etalstm.golden.arithmetic import add, multiply
from etalstm.golden.fast import compiled
from etalstm.golden.float64 import FLOAT32_GRADIENT_BOUND
from etalstm.golden.passes import active_steps
from etalstm.golden.product import FloatProduct, GateSums, weight_gradients
from etalstm.golden.reference import cell_forward
from etalstm.network.delta_inputs import OFF, LayerInputs
from etalstm.network.storage import Storage
from tests.golden.test_passes import POLICIES, arrays_of, assert_same_bits, layer, scalar_sum
from tests.network.cells.two_stages import TWO_STAGES

MINUS_ZERO = np.float32(-0.0)


def slow_layer(generator, steps=7, batch=3, inputs=4, units=5):
    """Arguments of a layer's passes whose x changes little from step to step; sequences of unequal lengths."""
    arguments = list(layer(generator, steps, batch, inputs, units, scale=0.7))
    x = np.cumsum(generator.normal(size=arguments[2].shape) * 0.2, axis=0).astype(np.float32)
    arguments[2] = np.where(generator.random(x.shape) < 0.1, np.float32(-0.0), x)
    arguments[5] = active_steps(np.resize([steps, 3, steps - 1], batch), steps)
    arguments[6] = np.where(arguments[5][:, :, None], arguments[6], np.float32(0))
    return arguments


def passes(engine, arguments, inputs, storage=reference.DENSE, skipped=None, **backward_options):
    """Every array of both passes by name."""
    *forward, dy, dh, dc = arguments
    done = engine.layer_forward(*forward, storage, skipped, inputs)
    back = engine.layer_backward(forward[0], done, dy, dh, dc, **backward_options)
    return arrays_of(done) | arrays_of(back)


def sent_by_definition(values, threshold, inputs, real):
    """What (T,) scalars are broadcast as, and what they were last sent as."""
    broadcast, sent = [], []
    for t, value in enumerate(values):
        moved = value if inputs.refreshes(t) else add(value, -sent[-1])
        if inputs.refreshes(t) or (real[t] and moved != 0 and not abs(moved) < np.float32(threshold)):
            broadcast.append(moved)
            sent.append(value)
        else:
            broadcast.append(np.float32(0))
            sent.append(sent[-1])
    return broadcast, sent


@pytest.mark.parametrize("refresh", [1, 3, 0])
def test_a_step_adds_the_sum_of_what_has_moved_to_the_sums_of_the_step_before(refresh):
    arguments, inputs = slow_layer(np.random.default_rng(1)), LayerInputs(0.15, 0.05, refresh)
    weights, bias, x, _, _, active = arguments[:6]
    got = passes(reference, arguments, inputs)
    operands = np.concatenate([x, got["h"][:-1]], axis=2)
    h_active = np.concatenate([active[:1], active[:-1]])
    real = [active] * x.shape[2] + [h_active] * (weights.shape[0] // 4)
    sums, z = GateSums(FloatProduct(weights, bias), inputs, active, x.shape[2]), {}
    found = [sums.step(t, operands[t]) for t in range(len(x))]
    got_sent = np.concatenate([got["x_sent"], got["h_sent"]], axis=2)
    assert_same_bits("sent", got_sent, np.stack([sent for _, sent in found]))
    for b in range(active.shape[1]):
        columns = [
            sent_by_definition(operands[:, b, k], (inputs.x, inputs.h)[k >= x.shape[2]], inputs, real[k][:, b])
            for k in range(operands.shape[2])
        ]
        for t, (sums_of_step, sent) in enumerate(found):
            assert_same_bits(f"sent at {t}, {b}", sent[b], np.array([column[1][t] for column in columns]))
            for r, row in enumerate(weights):
                pairs = zip(row, (column[0][t] for column in columns), strict=True)
                z[r] = scalar_sum(bias[r], pairs) if inputs.refreshes(t) else add(scalar_sum(None, pairs), z[r])
                assert_same_bits(f"z at {t}, {b}, {r}", sums_of_step[b, r], np.float32(z[r]))
    kept_back = got_sent != operands
    assert refresh == 1 or (kept_back[..., : x.shape[2]].any() and kept_back[..., x.shape[2] :].any())


def backward_by_definition(weights, got, inputs, dy, dh, dc):
    """δ, dx and dh0 one scalar at a time: a gradient collects down to the step at which its element was sent."""
    steps, batch, units = dy.shape
    sent = np.concatenate([got["x_sent"], got["h_sent"]], axis=2)
    collected = np.full(sent.shape[1:], MINUS_ZERO)
    delta, dx = np.zeros((steps, batch, 4 * units), np.float32), np.zeros_like(got["x_sent"])
    dh, dc, p = dh.copy(), dc.copy(), got["intermediates"]
    for t in reversed(range(steps)):
        if got["skipped"][t]:
            dh[:], dc[:], collected[:] = 0, 0, MINUS_ZERO
            continue
        for b in range(batch):
            dh[b], live = add(dy[t, b], dh[b]), got["active"][t, b]
            if live:
                through = add(dc[b], multiply(dh[b], p[4, t, b]))
                for gate, source in enumerate([through, through, through, dh[b]]):
                    delta[t, b, gate::4] = multiply(source, p[gate, t, b])
                dc[b] = multiply(through, p[5, t, b])
            gradients = np.zeros(sent.shape[2], np.float32)
            for k in range(sent.shape[2]):
                collected[b, k] = add(collected[b, k], scalar_sum(None, zip(weights[:, k], delta[t, b], strict=True)))
                if inputs.refreshes(t) or add(sent[t, b, k], -sent[t - 1, b, k]) != 0:
                    gradients[k], collected[b, k] = collected[b, k], MINUS_ZERO
            dx[t, b] = gradients[: dx.shape[2]]
            dh[b] = gradients[dx.shape[2] :] if live else dh[b]
    return {"delta": delta, "dx": dx, "dh0": dh, "dc0": dc}


@pytest.mark.parametrize("skipped", [None, [0, 0, 0, 1, 0, 0, 0]], ids=["all cells", "without cell 3"])
@pytest.mark.parametrize("refresh", [1, 3, 0])
def test_gradients_collect_down_to_the_step_at_which_an_element_was_sent(refresh, skipped):
    arguments, inputs = slow_layer(np.random.default_rng(2)), LayerInputs(0.15, 0.05, refresh)
    got = passes(reference, arguments, inputs, skipped=skipped)
    for name, expected in backward_by_definition(arguments[0], got, inputs, *arguments[6:]).items():
        assert_same_bits(name, got[name], expected)
    sent = np.concatenate([got["x_sent"], got["h_sent"]], axis=2)
    weights, bias = weight_gradients(got["delta"], got["delta"], sent)
    assert_same_bits("weights", got["weights"], weights)
    assert_same_bits("bias", got["bias"], bias)


def assert_engines_agree(arguments, inputs, **options):
    """The compiled trainer's bits are the reference's; gives them."""
    with np.errstate(all="ignore"):
        expected = passes(reference, arguments, inputs, **options)
        for name, actual in passes(compiled, arguments, inputs, **options).items():
            assert_same_bits(name, actual, expected[name])
    return expected


@pytest.mark.parametrize("refresh", [1, 2, 4, 0])
@pytest.mark.parametrize("thresholds", [(0.0, 0.0), (0.15, 0.05), (0.0, 0.1), (0.1, 0.0), (9.0, 9.0)], ids=str)
def test_compiled_gives_the_bits_of_the_reference(thresholds, refresh):
    for seed, batch, inputs, units in ((3, 4, 3, 5), (4, 9, 20, 33)):
        arguments = slow_layer(np.random.default_rng(seed), batch=batch, inputs=inputs, units=units)
        assert_engines_agree(arguments, LayerInputs(*thresholds, refresh))


@pytest.mark.parametrize("storage", [Storage(), *POLICIES], ids=lambda storage: storage.policy)
@pytest.mark.parametrize("skipped", [[], [0], [2, 4], [6]], ids=str)
def test_compiled_stores_skips_and_slices_like_the_reference(storage, skipped):
    arguments, skipped = slow_layer(np.random.default_rng(5)), np.isin(np.arange(7), skipped)
    for inputs in (LayerInputs(0.15, 0.05, 0), LayerInputs(0.1, 0.1, 3)):
        options = {"storage": storage.layer(0), "skipped": skipped}
        assert_engines_agree(arguments, inputs, **options)
        assert_engines_agree(arguments, inputs, **options, delta_threshold=0.05, slices=3)


@pytest.mark.parametrize("scale", [1e-20, 3e-37, 1e19, 1e30])
def test_compiled_gives_the_bits_of_the_reference_where_numbers_underflow_or_overflow(scale):
    arguments = layer(np.random.default_rng(6), 6, 3, 5, 9, scale=scale, zeros=0.1)
    for thresholds in ((0.0, 0.0), (scale, 0.01)):
        assert_engines_agree(arguments, LayerInputs(*thresholds, 4))


@pytest.mark.parametrize("refresh", [3, 0])
def test_compiled_gives_the_bits_of_the_reference_where_most_numbers_are_zeros_of_either_sign(refresh):
    for seed in range(40):
        arguments = list(layer(np.random.default_rng(seed), steps=6, batch=3, inputs=2, units=2, zeros=0.8))
        assert_engines_agree(arguments, LayerInputs(0.0, 0.0, refresh))


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_that_share_sequences_give_the_bits_of_the_reference(monkeypatch, threads):
    monkeypatch.setattr(compiled.CREW, "size", threads)
    arguments = slow_layer(np.random.default_rng(7), steps=9, batch=20, inputs=70, units=90)
    assert_engines_agree(arguments, LayerInputs(0.15, 0.05, 4))


@pytest.mark.parametrize("engine", [reference, compiled])
@pytest.mark.parametrize("batch", [3, 40])
def test_with_a_refresh_at_every_step_thresholds_change_no_bit(engine, batch):
    arguments = slow_layer(np.random.default_rng(8), batch=batch)
    without = passes(engine, arguments, OFF)
    if engine is compiled:  # which copies nothing
        assert without["x_sent"] is without["x"] and np.shares_memory(without["h_sent"], without["h"])
    for name, array in passes(engine, arguments, LayerInputs(0.5, 0.5, 1)).items():
        assert_same_bits(name, array, without[name])


def test_a_threshold_of_zero_without_refresh_is_the_whole_network_to_rounding():
    """Every element differs from the step before. One that does not is not sent, and so has no gradient of its own."""
    arguments = list(layer(np.random.default_rng(9), steps=20, batch=8, inputs=30, units=40))
    arguments[0] *= np.float32(0.2)
    arguments[5][:] = True
    without = passes(compiled, arguments, OFF)
    changed = passes(compiled, arguments, LayerInputs(0.0, 0.0, 0))
    for name in changed.keys() - {"active", "skipped"}:
        error = np.linalg.norm(changed[name].astype(np.float64) - without[name]) / np.linalg.norm(without[name])
        assert error < FLOAT32_GRADIENT_BOUND, f"{name}: relative error {error:.3g}"


@pytest.mark.parametrize("engine", [reference, compiled])
def test_what_is_no_number_is_sent_and_so_is_the_number_after_it(engine):
    arguments = list(slow_layer(np.random.default_rng(10)))
    arguments[2][2, 0, 1], arguments[5][:] = np.nan, True
    got = passes(engine, arguments, LayerInputs(100.0, 100.0, 0))
    assert np.isnan(got["x_sent"][:, 0, 1]).tolist() == [t == 2 for t in range(7)]
    assert got["x_sent"][3, 0, 1] == got["x"][3, 0, 1] != got["x"][0, 0, 1]
    assert np.isnan(got["h"][3:, 0]).all() and np.isfinite(got["h"][:3]).all() and np.isfinite(got["h"][:, 1:]).all()
    assert np.isnan(got["h_sent"][3:, 0]).all()


@pytest.mark.parametrize("engine", [reference, compiled])
def test_a_step_at_which_nothing_moves_adds_a_positive_zero(engine):
    """Sums that were -0 become +0, and with them g and c. x, h and c stay zeros, so nothing is ever sent."""
    arguments = [array[:3] if array.ndim == 3 else array for array in slow_layer(np.random.default_rng(12))]
    arguments[1][:], arguments[2][:], arguments[3][:], arguments[4][:] = MINUS_ZERO, 0, 0, MINUS_ZERO
    arguments[5] = np.ones((3, 3), bool)
    c = passes(engine, arguments, LayerInputs(0.0, 0.0, 0))["c"]
    assert not c.any()
    assert np.signbit(c[1]).all() and not np.signbit(c[2:]).any()


@pytest.mark.parametrize("engine", [reference, compiled])
def test_padding_sends_nothing_and_collects_nothing(engine):
    arguments = slow_layer(np.random.default_rng(11))
    arguments[2][4, 1] = np.nan  # beyond the sequence's three steps
    got = passes(engine, arguments, LayerInputs(0.0, 0.0, 0))
    assert_same_bits("x_sent", got["x_sent"][3:, 1], np.stack([got["x_sent"][2, 1]] * 4))
    weights, bias, x, h0, c0, active, dy, dh, dc = arguments
    ended = x[:3, 1:2], h0[1:2], c0[1:2], active[:3, 1:2], dy[:3, 1:2], dh[1:2], dc[1:2]
    alone = passes(engine, (weights, bias, *ended), LayerInputs(0.0, 0.0, 0))
    assert np.array_equal(got["dx"][:3, 1:2], alone["dx"]) and not got["dx"][3:, 1].view(np.uint32).any()
    for name in ("dh0", "dc0"):
        assert np.array_equal(got[name][1:2], alone[name]), name


def test_a_cell_of_two_stages_has_no_delta_inputs():
    x, state, active = np.zeros((1, 1, 1), np.float32), np.zeros((1, 1), np.float32), np.ones((1, 1), bool)
    with pytest.raises(ValueError, match=r"one product, with x, h; .* broadcasts x, h; v"):
        cell_forward(TWO_STAGES, [], x, state, state, active, delta_inputs=LayerInputs(0.1, 0.1, 4))
