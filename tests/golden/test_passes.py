"""The compiled trainer gives the reference's bits, and the reference keeps the order the design fixes."""

import inspect
import os
import time
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from etalstm.formats import codec
from etalstm.golden import arithmetic, product, reference
from etalstm.golden.arithmetic import add, multiply
from etalstm.golden.fast import compiled, packing, sums, tile
from etalstm.golden.passes import active_steps
from etalstm.network.shape import flush_subnormals
from etalstm.network.storage import Storage

PRUNING = (0.02, 0.01, 0.02, 0.01, 0.05, 0.1)
POLICIES = [Storage(policy, PRUNING) for policy in ("ms1", "ms1-bf16")]


def assert_same_bits(name, actual, expected):
    assert actual.shape == expected.shape and actual.dtype == expected.dtype, name
    if expected.dtype == np.float32:
        actual, expected = actual.view(np.uint32), expected.view(np.uint32)
    wrong = np.argwhere(actual != expected)
    if wrong.size:
        index = tuple(wrong[0])
        pytest.fail(f"{name}{[int(n) for n in index]}: got {actual[index]:#010x}, expected {expected[index]:#010x}")


def layer(generator, steps, batch, inputs, units, scale=1.0, zeros=0.0):
    """Random arguments of a layer's two passes; a share `zeros` of every array is ±0."""

    def draw(*size):
        values = flush_subnormals((generator.normal(size=size) * scale).astype(np.float32))
        return np.where(generator.random(size) < zeros, np.copysign(np.float32(0), values), values)

    weights, bias = draw(4 * units, inputs + units), draw(4 * units)
    x, h0, c0 = draw(steps, batch, inputs), draw(batch, units), draw(batch, units)
    active = active_steps(generator.integers(1, steps + 1, batch), steps)
    return weights, bias, x, h0, c0, active, draw(steps, batch, units), draw(batch, units), draw(batch, units)


def train(
    engine, weights, bias, x, h0, c0, active, dy, dh, dc, storage=reference.DENSE, skipped=None, **backward_options
):
    forward = engine.layer_forward(weights, bias, x, h0, c0, active, storage, skipped)
    return arrays_of(forward) | arrays_of(engine.layer_backward(weights, forward, dy, dh, dc, **backward_options))


def arrays_of(result):
    """Every array of a pass by name, those that are laid out when asked for too."""
    laid_out = [name for name, _ in inspect.getmembers(type(result), lambda member: isinstance(member, property))]
    members = vars(result) | {name: getattr(result, name) for name in laid_out}
    return {name: member for name, member in members.items() if isinstance(member, np.ndarray)}


def assert_engines_agree(arguments, *reductions, **more_reductions):
    expected = train(reference, *arguments, *reductions, **more_reductions)
    for name, actual in train(compiled, *arguments, *reductions, **more_reductions).items():
        assert_same_bits(name, actual, expected[name])


SIZES = st.integers(1, 7)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SIZES, SIZES, SIZES, SIZES, st.sampled_from([0.0, 0.3, 0.9]), st.integers(0, 2**32 - 1))
@example(1, 1, 1, 1, 1.0, 0)
@example(3, 33, 5, 100, 0.5, 1)
@example(2, 3, 100, 65, 0.0, 2)
def test_compiled_gives_the_bits_of_the_reference(steps, batch, inputs, units, zeros, seed):
    arguments = layer(np.random.default_rng(seed), steps, batch, inputs, units, zeros=zeros)
    assert_engines_agree(arguments)


@pytest.mark.parametrize("scale", [1e-10, 1e-19, 3e-20, 1e-36, 1e8, 1e19, 1e30])
def test_compiled_gives_the_bits_of_the_reference_where_numbers_underflow_or_overflow(scale):
    arguments = layer(np.random.default_rng(8), 4, 3, 5, 9, scale=scale, zeros=0.1)
    with np.errstate(all="ignore"):
        assert_engines_agree(arguments)


@pytest.mark.parametrize("storage", POLICIES, ids=lambda storage: storage.policy)
@pytest.mark.parametrize("skipped", [None, [1, 0, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 1, 1], [1, 1, 1, 1, 1]], ids=str)
def test_compiled_stores_and_skips_like_the_reference(storage, skipped):
    arguments = layer(np.random.default_rng(9), 5, 3, 6, 20, zeros=0.1)
    skipped = None if skipped is None else np.array(skipped, bool)
    assert_engines_agree(arguments, storage.layer(0), skipped)
    assert_engines_agree(arguments, storage.layer(0), skipped, delta_threshold=0.05)
    assert_engines_agree(arguments, skipped=skipped)


@pytest.mark.parametrize("storage", POLICIES, ids=lambda storage: storage.policy)
def test_what_is_stored_is_what_a_stream_gives_back(storage):
    arguments = layer(np.random.default_rng(9), 5, 3, 6, 20, zeros=0.1)
    arguments[1][:] = 40 * np.sign(arguments[1])  # saturated gates: P of ±0, and a P_r that is 1
    dense = compiled.layer_forward(*arguments[:6]).intermediates
    kept = compiled.layer_forward(*arguments[:6], storage.layer(0)).intermediates
    assert (dense.view(np.uint32) == 0x8000_0000).any(), "no -0 to look at"
    for p, got, threshold in zip(dense, kept, PRUNING, strict=True):
        stream = codec.encode(p.reshape(-1), threshold, storage.layer(0).bf16)
        assert_same_bits("P", got, codec.decode(stream, p.size, storage.layer(0).bf16).reshape(p.shape))


@pytest.mark.parametrize("engine", [reference, compiled])
def test_a_skipped_cell_contributes_nothing_and_passes_nothing_on(engine):
    weights, bias, x, h0, c0, _, dy, dh, dc = layer(np.random.default_rng(5), 6, 2, 3, 4)
    active = active_steps([6, 4], 6)
    dy = np.where(active[:, :, None], dy, np.float32(0))
    skipped = np.array([0, 0, 0, 1, 0, 0], bool)
    got = train(engine, weights, bias, x, h0, c0, active, dy, dh, dc, skipped=skipped)
    whole = train(engine, weights, bias, x, h0, c0, active, dy, dh, dc)
    nothing = np.zeros_like(dh)
    first = train(engine, weights, bias, x[:3], h0, c0, active[:3], dy[:3], nothing, nothing)
    for name in ("h", "c"):
        assert_same_bits(name, got[name], whole[name])
    for name in ("dh0", "dc0"):
        assert_same_bits(name, got[name], first[name])
    for name in ("dx", "delta"):
        assert_same_bits(
            name, got[name], np.concatenate([first[name], np.zeros_like(whole[name][:1]), whole[name][4:]])
        )
    assert not got["intermediates"][:, 3].view(np.uint32).any()


@pytest.mark.parametrize("engine", [reference, compiled])
def test_small_gradients_of_gates_are_left_out_of_the_products_and_not_of_the_bias_gradient(engine):
    arguments = layer(np.random.default_rng(6), 1, 3, 4, 5)
    arguments[5][:] = True
    whole, threshold = train(engine, *arguments), np.float32(0.1)
    got = train(engine, *arguments, delta_threshold=threshold)
    small = np.abs(whole["delta"]) < threshold
    assert 0.2 < small.mean() < 0.8
    assert_same_bits("delta", got["delta"], np.where(small, np.float32(0), whole["delta"]))
    for name in ("bias", "dc0"):
        assert_same_bits(name, got[name], whole[name])
    xh = np.concatenate([arguments[2][0], arguments[3]], axis=1)
    assert np.allclose(got["weights"], got["delta"][0].T @ xh, atol=1e-5)
    assert np.allclose(got["dh0"], got["delta"][0] @ arguments[0][:, 4:], atol=1e-5)
    assert (got["weights"] != whole["weights"]).any() and (got["dx"] != whole["dx"]).any()


def scalar_sum(start, pairs):
    """A MAC sum as the design words it, one scalar at a time."""
    total = start
    for value, broadcast in pairs:
        if broadcast != 0:
            term = multiply(value, broadcast)
            total = term if total is None else add(total, term)
    return np.float32(0) if total is None else total


@pytest.mark.parametrize("engine", [reference, compiled])
@pytest.mark.parametrize("started", [True, False])
def test_sums_ascend_and_skip_zero_broadcasts(engine, started):
    generator = np.random.default_rng(11)
    matrix = generator.normal(size=(70, 9)).astype(np.float32)
    matrix[:, 3] = -0.0
    scalars = generator.normal(size=(5, 70)).astype(np.float32)
    scalars[generator.random(scalars.shape) < 0.3] = -0.0
    scalars[2] = 0.0
    start = np.full((5, 9), -0.0, np.float32) if started else None
    actual = (product if engine is reference else engine).mac_sums(start, matrix, scalars)
    for n in range(5):
        for r in range(9):
            expected = scalar_sum(np.float32(-0.0) if started else None, zip(matrix[:, r], scalars[n], strict=True))
            assert_same_bits(f"sum {n},{r}", actual[n, r], np.float32(expected))


@pytest.mark.parametrize("zeros", [0, 0.05, 0.4, 0.9])
@pytest.mark.parametrize("started", [True, False])
def test_tiles_and_rows_with_any_share_of_zeros_have_the_bits_of_the_reference(started, zeros):
    """More rows than a chunk, more terms than a block, columns that fill no panel; several tiles are mixed."""
    generator = np.random.default_rng(13)
    rows, terms, columns = sums.CHUNK + 13, 2 * packing.TERMS + 5, 3 * tile.WIDTH + 7
    matrix = generator.normal(size=(terms, columns)).astype(np.float32)
    matrix[:, 3], matrix[:, 40] = -0.0, 0.0
    scalars = generator.normal(size=(rows, terms)).astype(np.float32)
    scalars[generator.random(scalars.shape) < zeros] = generator.choice([0.0, -0.0])
    scalars[2], scalars[-1] = 0.0, -0.0
    start = np.where(generator.random((rows, columns)) < 0.1, -0.0, 1).astype(np.float32) if started else None
    expected = product.mac_sums(start, matrix, scalars)
    assert_same_bits("sums", compiled.mac_sums(start, matrix, scalars), expected)
    turned = np.asfortranarray(scalars)
    assert_same_bits("sums of scalars in another order", compiled.mac_sums(start, matrix, turned), expected)


@pytest.mark.parametrize("zeros", [0, 0.05, 0.4, 0.9])
def test_sums_of_gradients_have_the_bits_of_the_reference(zeros):
    """More δ than a chunk, more terms than a block; the columns of h begin within a panel and fill none."""
    generator, terms = np.random.default_rng(15), packing.TERMS + 30
    sizes = tile.WIDTH + 7, tile.WIDTH + 2, sums.CHUNK + 13
    x, h, delta = (generator.normal(size=(terms + 9, size)).astype(np.float32) for size in sizes)
    delta[generator.random(delta.shape) < zeros] = generator.choice([0.0, -0.0])
    x[:, 3], delta[:, 5] = -0.0, 0.0
    rows, order = (generator.permutation(terms + 9)[:terms] for _ in range(2))
    expected = product.mac_sums(None, np.concatenate([x, h], axis=1)[rows], delta[order].T)
    assert_same_bits("sums", sums.gradient_sums(x, h, rows, delta, order), expected)


def test_a_block_that_underflows_between_others_is_flushed():
    """Some columns have terms in the middle block only, so that nothing hides what is not flushed."""
    generator, terms = np.random.default_rng(14), 3 * packing.TERMS
    matrix, scalars = (generator.normal(size=size).astype(np.float32) for size in ((terms, 20), (24, terms)))
    middle = slice(packing.TERMS, 2 * packing.TERMS)
    small = matrix[middle] * np.float32(1e-30)
    matrix[:, :5], matrix[middle] = 0, small
    scalars[:, middle] *= np.float32(1e-9)
    assert_same_bits("sums", compiled.mac_sums(None, matrix, scalars), product.mac_sums(None, matrix, scalars))


@pytest.mark.parametrize("zeros", [0, 0.2, 0.7])
@pytest.mark.parametrize("rows", [1, 3, 2 * sums.ROWS + 3])
def test_only_some_rows_and_columns_underflow(rows, zeros):
    """Few values make sums that cancel; products of two small ones underflow."""
    generator, terms = np.random.default_rng(15), packing.TERMS + 40
    matrix, scalars = (
        generator.choice(np.array([-1.5, -1, 1, 1.25], np.float32), size) for size in ((terms, 70), (rows, terms))
    )
    matrix[:, generator.random(70) < 0.3] *= np.float32(2.0**-63)
    scalars[rows // 2 :: sums.ROWS] *= np.float32(2.0**-64)
    matrix[generator.random(matrix.shape) < zeros / 2] = 0
    scalars[generator.random(scalars.shape) < zeros] = -0.0
    sizes = packing.magnitudes(matrix), packing.magnitudes(scalars)
    assert sums.kind_of(terms, *sizes, 1.0) == sums.FINITE
    for start in (None, generator.choice(np.array([0, -0.0, 2.0**-126, 1], np.float32), (rows, 70))):
        expected = product.mac_sums(start, matrix, scalars)
        assert_same_bits("sums", compiled.mac_sums(start, matrix, scalars), expected)


@pytest.mark.parametrize("engine", [reference, compiled])
def test_a_sum_of_negative_zeros_stays_negative_and_an_empty_one_is_positive(engine):
    matrix = np.full((2, 1), -0.0, np.float32)
    scalars = np.array([[1, 0], [1, 2], [0, -0.0]], np.float32)
    actual = (product if engine is reference else engine).mac_sums(None, matrix, scalars)
    assert actual.view(np.uint32).tolist() == [[0x8000_0000], [0x8000_0000], [0]]


@pytest.mark.parametrize("engine", [reference, compiled])
def test_weight_gradients_descend_in_t_and_ascend_in_b(engine):
    weights, bias, x, h0, c0, active, dy, dh, dc = layer(np.random.default_rng(4), 4, 3, 2, 2, zeros=0.2)
    got = train(engine, weights, bias, x, h0, c0, active, dy, dh, dc)
    delta = deltas(weights, got, dy, dh, dc)
    xh = np.concatenate([x, got["h"][:-1]], axis=2)
    order = [(t, b) for t in reversed(range(4)) for b in range(3)]
    for r in range(8):
        db = np.float32(0)
        for t, b in order:
            db = add(db, delta[t, b, r])
        assert_same_bits(f"db {r}", got["bias"][r], np.float32(db))
        for k in range(4):
            expected = scalar_sum(None, [(xh[t, b, k], delta[t, b, r]) for t, b in order])
            assert_same_bits(f"dW {r},{k}", got["weights"][r, k], np.float32(expected))


@pytest.mark.parametrize("column_norms", [reference.column_norms, sums.column_norms])
def test_column_norms_add_squares_row_by_row(column_norms):
    dw = np.random.default_rng(4).standard_normal((8, 5), np.float32)
    norms = np.zeros(5, np.float32)
    for row in dw:
        norms = [np.float32(add(norm, multiply(value, value))) for norm, value in zip(norms, row, strict=True)]
    assert_same_bits("column norms", column_norms(dw), np.array(norms))


def deltas(weights, forward, dy, dh, dc):
    """The δ of every step, unit and gate, one scalar at a time."""
    steps, batch, units = dy.shape
    delta = np.zeros((steps, batch, 4 * units), np.float32)
    dh, dc = dh.copy(), dc.copy()
    p = forward["intermediates"]
    inputs = weights.shape[1] - units
    for t in reversed(range(steps)):
        for b in range(batch):
            dh[b] = add(dy[t, b], dh[b])
            if not forward["active"][t, b]:
                continue
            through = add(dc[b], multiply(dh[b], p[4, t, b]))
            for gate, source in enumerate([through, through, through, dh[b]]):
                delta[t, b, gate::4] = multiply(source, p[gate, t, b])
            dc[b] = multiply(through, p[5, t, b])
            for u in range(units):
                dh[b, u] = scalar_sum(None, zip(weights[:, inputs + u], delta[t, b], strict=True))
    return delta


@pytest.mark.parametrize("engine", [reference, compiled])
def test_a_padded_step_changes_no_state_and_gives_no_gradient(engine):
    weights, bias, x, h0, c0, _, dy, dh, dc = layer(np.random.default_rng(5), 5, 2, 3, 4)
    active = active_steps([5, 3], 5)
    dy = np.where(active[:, :, None], dy, np.float32(0))
    padded = train(engine, weights, bias, x, h0, c0, active, dy, dh, dc)
    for t in (3, 4):
        assert_same_bits("h", padded["h"][t + 1, 1], padded["h"][3, 1])
        assert_same_bits("c", padded["c"][t + 1, 1], padded["c"][3, 1])
        assert not padded["dx"][t, 1].view(np.uint32).any()
    short = train(engine, weights, bias, x[:3, 1:], h0[1:], c0[1:], active[:3, 1:], dy[:3, 1:], dh[1:], dc[1:])
    for name in ("dh0", "dc0"):
        assert_same_bits(name, padded[name][1:], short[name])
    assert_same_bits("dx", padded["dx"][:3, 1:], short["dx"])
    changed = np.where(active[:, :, None], x, np.float32(7))
    again = train(engine, weights, bias, changed, h0, c0, active, dy, dh, dc)
    assert_same_bits("dW", again["weights"], padded["weights"])


@pytest.mark.parametrize("scale", [1e-23, 1e-19, 1e18, 1e25, np.inf])
def test_sums_that_underflow_overflow_or_are_no_number_have_the_bits_of_the_reference(scale):
    generator = np.random.default_rng(12)
    matrix, scalars = (generator.choice([-1, 0, 0.7, 1.3], size).astype(np.float32) for size in ((9, 40), (8, 9)))
    with np.errstate(all="ignore"):
        matrix, scalars = matrix * np.float32(scale), scalars * np.float32(scale if np.isfinite(scale) else 1)
    assert_same_bits("sum", compiled.mac_sums(None, matrix, scalars), product.mac_sums(None, matrix, scalars))


def test_large_layers_take_the_plain_loop_and_still_give_the_bits():
    generator = np.random.default_rng(6)
    arguments = layer(generator, 3, 20, 70, 130, scale=0.1)
    assert_engines_agree(arguments)
    size = packing.magnitudes(arguments[0])
    assert sums.kind_of(200, size, size, 0) == sums.PLAIN


@pytest.mark.parametrize("changed", ["a module of the folder", "codec", "contract.fields", "tables"])
def test_cached_machine_code_older_than_a_source_is_dropped(tmp_path, monkeypatch, changed):
    (tmp_path / "__pycache__").mkdir()
    old, new = tmp_path / "__pycache__" / "a.f-1.py311.1.nbi", tmp_path / "__pycache__" / "a.f-2.py311.1.nbi"
    module, source = tmp_path / "a.py", tmp_path / ("b.py" if " " in changed else "elsewhere.txt")
    future = time.time() + 1000  # later than the real sources
    for path, age in ((module, 30), (old, 20), (source, 10), (new, 0)):
        path.touch()
        os.utime(path, (future - age, future - age))
    monkeypatch.setattr(arithmetic, "__file__", str(tmp_path / "arithmetic.py"))
    if " " not in changed:
        monkeypatch.setattr(attrgetter(changed)(arithmetic), "__file__", str(source))
    arithmetic.drop_stale()
    assert not old.exists() and new.exists()
