"""Gradients of slices: their own sums, added as a tree, by both engines."""

import numpy as np
import pytest

from etalstm.golden import float64, reference
from etalstm.golden.arithmetic import add
from etalstm.golden.fast import compiled
from etalstm.golden.float64 import FLOAT32_GRADIENT_BOUND
from etalstm.network.slices import slice_ranges
from etalstm.network.storage import Storage
from tests.golden.test_passes import assert_engines_agree, assert_same_bits, layer, train

BATCH = 8


def arguments_of(seed, scale=1.0):
    arguments = layer(np.random.default_rng(seed), 5, BATCH, 3, 6, scale=scale, zeros=0.1)
    assert not arguments[5].all(), "no padding to look at"
    return arguments


def total_of(parts, first, count):
    """The tree as the design words it."""
    if count == 1:
        return parts[first]
    right = count // 2
    return add(total_of(parts, first, count - right), total_of(parts, first + count - right, right))


@pytest.mark.parametrize("engine", [reference, compiled])
@pytest.mark.parametrize("slices", [1, 2, 3, 5, 8])
def test_each_slice_is_summed_alone_and_slices_are_added_as_a_tree(engine, slices):
    weights, bias, x, h0, c0, active, dy, dh, dc = arguments_of(2)
    got = train(engine, weights, bias, x, h0, c0, active, dy, dh, dc, slices=slices)
    alone = []
    for sequences in slice_ranges(BATCH, slices):
        of = slice(sequences.start, sequences.stop)
        alone.append(train(engine, weights, bias, x[:, of], h0[of], c0[of], active[:, of], dy[:, of], dh[of], dc[of]))
    for name in ("weights", "bias"):
        assert_same_bits(name, got[name], total_of([part[name] for part in alone], 0, slices))
    for name in ("dx", "delta"):
        assert_same_bits(name, got[name], np.concatenate([part[name] for part in alone], axis=1))


@pytest.mark.parametrize("slices", [2, 3, 5, 8])
@pytest.mark.parametrize("scale", [1.0, 1e-10, 1e-19, 1e19])
def test_compiled_gives_the_bits_of_the_reference(slices, scale):
    with np.errstate(all="ignore"):
        assert_engines_agree(arguments_of(3, scale), slices=slices)


@pytest.mark.parametrize("storage", [Storage(policy, 0.02) for policy in ("ms1", "ms1-bf16")], ids=lambda s: s.policy)
def test_compiled_slices_what_was_stored_skipped_and_pruned_like_the_reference(storage):
    skipped = np.array([0, 1, 0, 1, 0], bool)
    assert_engines_agree(arguments_of(4), storage.layer(0), skipped, slices=3, delta_threshold=0.05)


def test_slices_change_the_order_of_sums_and_not_their_value():
    arguments = arguments_of(5)
    doubles = [array if array.dtype == bool else np.float64(array) for array in arguments]
    exact = train(float64, *doubles)
    found = [train(compiled, *arguments, slices=slices) for slices in (1, 4)]
    assert (found[0]["weights"] != found[1]["weights"]).any()
    for got in found:
        for name in ("weights", "bias"):
            error = np.linalg.norm(got[name] - exact[name]) / np.linalg.norm(exact[name])
            assert error < FLOAT32_GRADIENT_BOUND, f"{name}: {error}"
