"""``eta-lstm research reduced`` measures."""

import json

import numpy as np
import pytest
import torch

from etalstm.cli.main import run
from etalstm.research.reduced import savings_bench as bench
from tests.nn.parity import DEVICES, assert_close

SMALL = ["--hidden", "8", "--batch", "3", "--steps", "10", "--runs", "2"]
CASES = {"stock", "plain", "MS1", "MS1, bfloat16", "MS2", "Combine-MS", "Combine-MS, bfloat16"}


def measured(capsys, *options):
    assert run(["research", "reduced", *SMALL, *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("device", DEVICES)
def test_the_figures_are_there(device, capsys):
    result = measured(capsys, "--device", device)
    assert set(result["cases"]) == CASES and 0 < result["density"] < 1
    for case in result["cases"].values():
        assert all(np.isfinite(value) and value > 0 for value in case.values())
        assert case["peak_bytes"] >= case["kept_bytes"]
    assert result["cases"]["plain"]["time_of_plain"] == result["cases"]["stock"]["kept_of_stock"] == 1


def test_bytes_are_those_of_the_tensors_that_are_kept(capsys):
    result = measured(capsys, "--theta", "0", "--skip", "0.4")
    tensor, initial = 10 * 3 * 8 * 4, 3 * 8 * 4
    kept = {name: case["kept_bytes"] for name, case in result["cases"].items()}
    words, bits = 6 * tensor - initial, 6 * tensor // 32  # P_f of the first step is zero, as c0 is
    assert result["density"] == words / (6 * tensor)
    assert kept["MS2"] == 0.6 * 5 * tensor + initial
    assert kept["MS1"] == words + bits + 4 + initial
    assert kept["MS1, bfloat16"] == words / 2 + bits + 2 + initial
    assert kept["plain"] >= 6 * tensor  # the gates, c and its hyperbolic tangent


def test_a_higher_threshold_keeps_less(capsys):
    low, high = (measured(capsys, "--theta", theta) for theta in ("0.05", "0.3,0.3,0.3,0.3,0.3,0.3"))
    assert high["density"] < low["density"]
    assert high["cases"]["MS1"]["kept_bytes"] < low["cases"]["MS1"]["kept_bytes"]


def test_the_plain_lstm_is_that_of_torch():
    work = bench.drawn(8, 3, 5)
    plain, stock = (work.load(module(8, 8)) for module in (bench.PlainLSTM, torch.nn.LSTM))
    results = []
    for module in (plain, stock):
        x = torch.from_numpy(work.x).requires_grad_()
        y, (h, c) = module(x)
        (y.sin().sum() + h.cos().sum() + c.sum()).backward()
        found = {"y": y, "h": h.reshape(3, 8), "c": c.reshape(3, 8), "dx": x.grad}
        results.append({name: tensor.detach() for name, tensor in found.items()})
        results[-1] |= {name: parameter.grad for name, parameter in module.named_parameters()}
    assert_close(*results)


def test_it_is_told_as_a_table(capsys):
    assert run(["research", "reduced", *SMALL]) == 0
    out = capsys.readouterr().out
    assert all(case in out for case in CASES) and "of the local gradients are kept" in out


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--hidden=0", "hidden must be above 0, got 0"),
        ("--runs=0", "runs must be above 0"),
        ("--skip=1.5", "skip must be above 0 and at most 1, got 1.5"),
        ("--theta=-1", "theta must be finite and at least 0"),
        ("--theta=1,2", "theta must be a number, or one for each of"),
        ("--device=tpu", "device must be one of cpu, cuda, got 'tpu'"),
    ],
)
def test_options_that_make_no_sense_are_refused(option, message, capsys):
    assert run(["research", "reduced", option]) == 2
    assert message in capsys.readouterr().err


def test_a_gpu_that_there_is_not_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run(["research", "reduced", "--device", "cuda"]) == 2
    assert "this PyTorch sees no GPU" in capsys.readouterr().err
