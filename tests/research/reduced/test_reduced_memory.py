"""What the reduced LSTM keeps between its passes: format, amount, and the plan of blocks."""

import numpy as np
import pytest
import torch

from etalstm.network.storage import KINDS
from etalstm.research.layouts import BATCH_MAJOR, BATCH_MINOR
from etalstm.research.reduced import LSTM
from etalstm.research.reduced.arrangement import BLOCK_ROWS, Plan
from etalstm.research.reduced.compression import (
    compress,
    compress_in_torch,
    expand,
    expand_in_torch,
    kept_elements,
    kept_tensors,
    storage_bytes,
)

TINY = torch.finfo(torch.float32).tiny
SIX = torch.tensor([0.1, 0.5, 0.01, TINY, 0.2, 0.9])
ODD = torch.tensor([0.0, -0.0, TINY / 2, -TINY / 2, TINY, -TINY, float("nan"), float("inf"), -float("inf"), 1.0])


def elements(units, cells=7):
    torch.manual_seed(units)
    drawn = torch.randn(cells, len(KINDS), units)
    return drawn.index_put_((torch.arange(3), torch.arange(3), torch.tensor([0, -1, units // 2])), ODD[:3])


@pytest.mark.parametrize("units", [1, 7, 8, 9, 64, 253])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_expanded_is_what_is_not_below_its_threshold(units, dtype):
    given, limits = elements(units).to(dtype), SIX.to(dtype)
    stored = compress(given, limits, dtype)
    expected = torch.where(given.abs() < limits[:, None], 0.0, given)
    assert torch.equal(expand(stored, units, dtype), expected)
    assert len(stored.words) == 1 + int((expected != 0).sum())


@pytest.mark.parametrize("units", [1, 7, 8, 9, 64, 253])
def test_the_compiled_loops_are_the_operations_of_pytorch(units):
    given = elements(units)
    stored, other = (make(given, SIX, torch.float32) for make in (compress, compress_in_torch))
    assert torch.equal(stored.bits, other.bits) and torch.equal(stored.words, other.words)
    assert torch.equal(expand(stored, units, torch.float32), expand_in_torch(stored.bits, stored.words, units))


def test_zeros_and_subnormals_are_dropped_and_nans_kept():
    given = ODD.repeat(len(KINDS), 1)[None].contiguous()
    for make in (compress, compress_in_torch):
        found = expand(make(given, torch.full((6,), TINY), torch.float32), len(ODD), torch.float32)[0, 0]
        assert not found[:4].any() and not found[:4].signbit().any()
        assert torch.equal(found[4:].view(torch.int32), ODD[4:].view(torch.int32))


def test_words_of_bfloat16_are_rounded_to_nearest_even():
    given = elements(64)
    stored = compress(given, torch.full((6,), 0.3), torch.bfloat16)
    assert stored.words.dtype is torch.bfloat16
    expected = torch.where(given.abs() < 0.3, 0.0, given).bfloat16().float()
    assert torch.equal(expand(stored, 64, torch.float32), expected)


def kept_by(storage, theta=0.0, skip=None):
    """Give the tensors that a layer of 16 units keeps of 40 steps of 24 sequences, and the bytes that it adds."""
    torch.manual_seed(1)
    network = LSTM(16, 16, storage=storage, theta=theta, skip=skip)
    x, results = torch.randn(40, 24, 16), []
    tensors = kept_tensors(lambda: results.append(network(x)))
    y, states = results[0]
    return tensors, storage_bytes(tensors, [x, y, *states, *network.parameters()])


CELLS = 40 * 24
INITIAL = 2 * 24 * 16 * 4  # bytes of h0 and c0, one tensor of zeros where none are given


def test_dense_cells_keep_five_tensors():
    _, size = kept_by("dense")
    assert 0 <= size - CELLS * 5 * 16 * 4 <= INITIAL


@pytest.mark.parametrize(("storage", "word"), [("ms1", 4), ("ms1-bf16", 2)])
def test_compressed_cells_keep_bits_and_words(storage, word):
    tensors, size = kept_by(storage, 0.1)
    words = kept_elements(tensors)
    assert 0.2 < words / (CELLS * len(KINDS) * 16) < 0.8
    blocks = sum(tensor.dtype is torch.uint8 for tensor in tensors)
    assert 0 <= size - CELLS * len(KINDS) * 16 // 8 - (words + blocks) * word <= INITIAL


@pytest.mark.parametrize("storage", ["dense", "ms1"])
def test_skipped_cells_keep_nothing(storage):
    skip = np.arange(40)[None] < 30
    assert kept_by(storage, skip=skip)[1] - INITIAL < 0.26 * kept_by(storage)[1]


@pytest.mark.parametrize("sizes", [(3,) * 50, (BLOCK_ROWS + 1,) * 4, (200, 100, 90, 60, 7, 7, 1), (1,)])
@pytest.mark.parametrize("pattern", [[False], [True, False, False], [True]])
def test_blocks_cover_all_steps_in_order_and_mix_nothing(sizes, pattern):
    plan = Plan(sizes, tuple(np.resize(pattern, len(sizes)).tolist()), lambda batch: BATCH_MINOR)
    assert [step for block in plan.blocks for step in block.steps] == list(range(len(sizes)))
    rows = 0
    for block in plan.blocks:
        assert {plan.skipped[step] for step in block.steps} == {block.skipped}
        assert block.rows == slice(rows, rows + sum(sizes[step] for step in block.steps))
        assert block.rows.stop - rows <= BLOCK_ROWS or len(block.steps) == 1
        even = len({sizes[step] for step in block.steps}) == 1
        assert block.layout == (BATCH_MINOR if even else BATCH_MAJOR)
        rows = block.rows.stop
    assert sum(end.stop - end.start for end in plan.ends()) == sizes[0]
