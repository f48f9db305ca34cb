"""Both layouts of a product give the same numbers, and the faster one is chosen, once for each machine."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

import etalstm.nn
from etalstm.cli.main import run as run_command
from etalstm.host import computer
from etalstm.research import layouts
from etalstm.research.layouts import (
    BATCH_MAJOR,
    BATCH_MINOR,
    FORCE,
    LAYOUTS,
    Shape,
    chosen_layout,
    forced,
    timed,
)
from etalstm.research.reduced import LSTM
from etalstm.research.reduced.arrangement import BatchMajor, BatchMinor, Matrix, Plan
from etalstm.research.reduced.compression import kept_tensors
from etalstm.research.reduced.layout_bench import linear
from etalstm.research.reduced.lstm import layout_of
from tests.nn.parity import DEVICES, assert_close, run

SHAPE = Shape(20, 5, 3, torch.float32, torch.device("cpu"))
UNITS, STEPS, BATCH = 5, 4, 3
LENGTHS = [4, 4, 2]


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch, tmp_path):
    """A machine that has chosen nothing yet."""
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(FORCE, raising=False)
    forget(monkeypatch)
    return tmp_path / "cache"


def forget(monkeypatch):
    """Be a new process."""
    monkeypatch.setattr(layouts, "_KNOWN", {})


def fake(monkeypatch, major, minor):
    """Have timings of these seconds; give a list that grows with each."""
    made = []
    monkeypatch.setattr(layouts, "timed", lambda works: made.append(works) or [major, minor])
    return made


def choose():
    return chosen_layout(SHAPE, lambda name: None)


def refuse(works):
    pytest.fail("timed again")


@pytest.mark.parametrize(("seconds", "expected"), [((1.0, 2.0), BATCH_MAJOR), ((2.0, 1.0), BATCH_MINOR)])
def test_the_faster_layout_is_chosen(monkeypatch, seconds, expected):
    fake(monkeypatch, *seconds)
    assert choose() == expected


def test_each_layout_is_given_work_of_its_own(monkeypatch):
    made = fake(monkeypatch, 1.0, 2.0)
    chosen_layout(SHAPE, lambda name: name)
    assert made == [list(LAYOUTS)]


def test_the_fastest_call_counts_and_works_take_turns():
    pauses = iter([0, 0.03, 0, 0.0])  # in each turn the first call is not counted
    slow, quick = timed([lambda: time.sleep(next(pauses, 0)), lambda: time.sleep(0.005)], budget_s=0)
    assert slow < 0.005 < quick


def test_a_choice_is_made_once_in_a_process(monkeypatch):
    fake(monkeypatch, 2.0, 1.0)
    first = choose()
    monkeypatch.setattr(layouts, "timed", refuse)
    assert choose() == first == BATCH_MINOR


def test_a_choice_is_read_by_the_next_process(monkeypatch):
    fake(monkeypatch, 2.0, 1.0)
    choose()
    forget(monkeypatch)
    monkeypatch.setattr(layouts, "timed", refuse)
    assert choose() == BATCH_MINOR


def test_the_choice_of_a_process_that_was_faster_counts(monkeypatch, nothing_is_known):
    def slowly(works):
        layouts.Choices(nothing_is_known, layouts.Machine.here(), LAYOUTS).put(str(SHAPE), BATCH_MAJOR)
        return [2.0, 1.0]

    monkeypatch.setattr(layouts, "timed", slowly)
    assert choose() == BATCH_MAJOR


def test_choices_that_are_made_at_once_are_all_kept(nothing_is_known):
    def put(name):
        layouts.Choices(nothing_is_known, layouts.Machine.here(), LAYOUTS).put(name, BATCH_MINOR)

    names = [str(number) for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, names))
    (file,) = nothing_is_known.glob("*.json")
    assert json.loads(file.read_text())["choices"] == dict.fromkeys(names, BATCH_MINOR)


def test_choices_of_several_shapes_are_in_one_file(monkeypatch, nothing_is_known):
    fake(monkeypatch, 2.0, 1.0)
    for batch in (3, 4):
        chosen_layout(Shape(20, 5, batch, torch.float32, torch.device("cpu")), lambda name: None)
    (file,) = nothing_is_known.glob("*.json")
    assert json.loads(file.read_text())["choices"] == {f"20 x 5 x {n} float32 cpu": BATCH_MINOR for n in (3, 4)}


@pytest.mark.parametrize("member", ["processor", "torch", "threads"])
def test_another_machine_chooses_for_itself(monkeypatch, member):
    fake(monkeypatch, 2.0, 1.0)
    assert choose() == BATCH_MINOR
    here = layouts.Machine.here()
    monkeypatch.setattr(layouts.Machine, "here", lambda: layouts.Machine(**{**vars(here), member: "other"}))
    forget(monkeypatch)
    fake(monkeypatch, 1.0, 2.0)
    assert choose() == BATCH_MAJOR


def test_other_numbers_of_threads_have_choices_of_their_own(monkeypatch):
    fake(monkeypatch, 2.0, 1.0)
    assert choose() == BATCH_MINOR
    fake(monkeypatch, 1.0, 2.0)
    threads = torch.get_num_threads() + 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert choose() == BATCH_MAJOR


def damaged(file):
    """Give contents without a choice; the last two are another machine's, and layouts that there are not."""
    content = json.loads(file.read_text())
    yield from (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"machine": 3}')
    yield json.dumps({**content, "choices": [1]}).encode()
    yield json.dumps({**content, "machine": {**content["machine"], "processor": "other"}}).encode()
    yield json.dumps({**content, "choices": dict.fromkeys(content["choices"], "sideways")}).encode()


def test_a_damaged_or_foreign_file_counts_as_empty_and_is_replaced(monkeypatch, nothing_is_known):
    fake(monkeypatch, 2.0, 1.0)
    choose()
    (file,) = nothing_is_known.glob("*.json")
    whole = file.read_bytes()
    for content in list(damaged(file)):
        file.write_bytes(content)
        forget(monkeypatch)
        made = fake(monkeypatch, 2.0, 1.0)
        assert choose() == BATCH_MINOR and len(made) == 1, content
        assert file.read_bytes() == whole, content


def test_without_a_folder_a_choice_lasts_as_long_as_the_process(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path / "file" / "cache"))
    made = fake(monkeypatch, 2.0, 1.0)
    assert choose() == choose() == BATCH_MINOR and len(made) == 1
    forget(monkeypatch)
    assert choose() == BATCH_MINOR and len(made) == 2


def test_a_forced_layout_is_neither_timed_nor_stored(monkeypatch, nothing_is_known):
    monkeypatch.setattr(layouts, "timed", refuse)
    for name in LAYOUTS:
        with forced(name):
            assert choose() == name
        monkeypatch.setenv(FORCE, name)
        assert choose() == name
        monkeypatch.delenv(FORCE)
    assert not nothing_is_known.exists()


def test_layouts_that_there_are_not_are_refused(monkeypatch):
    message = "must be one of batch-major, batch-minor, got 'sideways'"
    with pytest.raises(ValueError, match=f"layout {message}"), forced("sideways"):
        pass
    monkeypatch.setenv(FORCE, "sideways")
    with pytest.raises(ValueError, match=f"ETALSTM_LAYOUT {message}"):
        choose()


def arranged(kind, sizes=(BATCH,) * STEPS):
    plan = Plan(sizes, (False,) * len(sizes), lambda batch: BATCH_MINOR)
    return kind(plan, plan.blocks[0])


def test_rows_that_enter_and_leave_are_the_same():
    torch.manual_seed(0)
    rows = torch.randn(STEPS * BATCH, UNITS)
    for kind in (BatchMajor, BatchMinor):
        arrangement, back = arranged(kind), rows.clone()
        cells = arrangement.enter(rows)
        arrangement.leave(cells, back)
        assert torch.equal(back, rows) and cells.shape[1] == arrangement.units(UNITS)
        one = cells[arrangement.cells(1)].reshape(-1)
        expected = rows[BATCH : 2 * BATCH]
        assert torch.equal(one, (expected if kind is BatchMajor else expected.T).reshape(-1))


def test_products_of_both_layouts_are_the_same():
    torch.manual_seed(0)
    x, h, delta = torch.randn(STEPS * BATCH, 2), torch.randn(BATCH, UNITS), torch.randn(BATCH, 4 * UNITS)
    w_ih, w_hh, bias = torch.randn(4 * UNITS, 2), torch.randn(4 * UNITS, UNITS), torch.randn(4 * UNITS)
    for kind in (BatchMajor, BatchMinor):
        arrangement, dh, sums_of_step = arranged(kind), torch.zeros(BATCH, UNITS), torch.zeros(BATCH, 4 * UNITS)
        sums, inner = arrangement.gate_sums(x, w_ih, bias)[arrangement.cells(2)], arrangement.enter(dh)
        arrangement.add_recurrent(sums, arrangement.enter(h), Matrix(w_hh))
        arrangement.leave(sums.flatten(1), sums_of_step)
        arrangement.multiply_back(arrangement.enter(delta), Matrix(w_hh), inner)
        arrangement.leave(inner, dh)
        expected = x[2 * BATCH : 3 * BATCH] @ w_ih.T + bias + h @ w_hh.T
        if kind is BatchMajor:
            sums_of_step = sums.flatten(1)
        torch.testing.assert_close(sums_of_step, expected)
        torch.testing.assert_close(dh, delta @ w_hh)


def test_an_output_layer_and_its_gradients_are_the_same_in_both_layouts():
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((7, 5), (11, 5), (11,)))
    found = []
    for name in LAYOUTS:
        y = linear(x, weight, bias, name)
        found.append((y, *torch.autograd.grad(y.sin().sum(), (x, weight, bias))))
    for major, minor in zip(*found, strict=True):
        torch.testing.assert_close(minor, major)


def batches():
    torch.manual_seed(2)
    x = torch.randn(STEPS, BATCH, 2)
    return {"padded": x, "packed": pack_padded_sequence(x, LENGTHS), "one": x[:, :1], "long": torch.randn(3, 130, 2)}


@pytest.mark.parametrize("batch", ["padded", "packed", "one", "long"])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(("storage", "theta"), [("dense", 0.0), ("ms1", 0.0), ("ms1", 0.1), ("ms1-bf16", 0.1)])
def test_a_reduced_lstm_is_the_same_in_both_layouts(storage, theta, skip, batch):
    x = batches()[batch]
    steps = 3 if batch == "long" else STEPS
    torch.manual_seed(1)
    network = LSTM(
        2, UNITS, 2, storage=storage, theta=theta, skip=np.arange(steps)[None] < [[1], [2]] if skip else None
    )
    network.measure = True
    found = []
    for name in LAYOUTS:
        with forced(name):
            found.append((run(network, x), network.contributions()))
    (major, contributed), (minor, contributed_in_minor) = found
    assert_close(minor, major)
    np.testing.assert_allclose(contributed_in_minor, contributed, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("storage", ["dense", "ms1"])
def test_gradients_of_both_layouts_are_those_of_finite_differences(storage):
    torch.manual_seed(1)
    network = LSTM(2, 3, storage=storage, dtype=torch.float64)
    x, state = torch.randn(3, 2, 2, dtype=torch.float64), torch.randn(1, 2, 3, dtype=torch.float64)
    leaves = [tensor.requires_grad_() for tensor in (x, state, *network.parameters())]
    for name in LAYOUTS:
        with forced(name):
            assert torch.autograd.gradcheck(lambda x, state, *_: network(x, (state, state))[0], leaves)


def test_a_layer_chooses_by_timing_its_own_steps(nothing_is_known):
    w_hh = torch.zeros(4 * UNITS, UNITS)
    assert layout_of(w_hh, BATCH) in LAYOUTS
    (file,) = nothing_is_known.glob("*.json")
    assert list(json.loads(file.read_text())["choices"]) == [f"{4 * UNITS} x {UNITS} x {BATCH} float32 cpu"]


def test_a_choice_in_a_forward_pass_is_seen_by_nobody():
    network, x = LSTM(2, UNITS), torch.randn(STEPS, BATCH, 2)
    first, second = (kept_tensors(lambda: network(x)) for _ in range(2))  # the first call times
    assert [tensor.shape for tensor in first] == [tensor.shape for tensor in second]


def test_a_choice_under_a_checkpoint_leaves_the_gradients():
    network, x = LSTM(2, UNITS), torch.randn(STEPS, BATCH, 2)
    found = checkpoint(network, x, use_reentrant=False)[0].sum()  # times; the second forward pass does not
    gradients = torch.autograd.grad(found, list(network.parameters()))
    expected = torch.autograd.grad(network(x)[0].sum(), list(network.parameters()))
    assert all(torch.equal(one, other) for one, other in zip(gradients, expected, strict=True))


def test_explain_tells_the_layouts():
    with forced(BATCH_MINOR):
        told = etalstm.nn.explain(LSTM(2, UNITS), batches()["packed"])
    (made,) = told.layouts
    assert (made.units, made.batch, made.steps, made.layout) == (UNITS, BATCH, STEPS, BATCH_MAJOR)  # unequal lengths
    with forced(BATCH_MINOR):
        text = str(etalstm.nn.explain(LSTM(2, UNITS, 2), (STEPS, BATCH, 2)))
    assert text.splitlines()[1].split() == ["20", "x", "5", "3", "4", BATCH_MINOR]
    assert text.count(BATCH_MINOR) == 2 and "layout: the forced one" in text


def test_the_processor_has_a_name(monkeypatch, tmp_path):
    assert computer.processor_name()
    monkeypatch.setattr(computer, "Path", lambda name: tmp_path / "none")  # no Linux
    assert computer.processor_name.__wrapped__() == computer.platform.machine()


TINY = ["--hidden", "4,6", "--batch", "3", "--seconds", "0"]


@pytest.mark.parametrize("device", DEVICES)
def test_the_bench_gives_its_figures(device, capsys):
    assert run_command(["research", "layout", *TINY, "--device", device, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(of["hidden"], of["batch"]) for of in result["shapes"]] == [(4, 3), (6, 3)]
    for of in result["shapes"]:
        assert of["layout"] in LAYOUTS and all(of[name] > 0 for name in ("major", "minor", "chosen", "layer", "torch"))
    assert result["worst"] == max(of["chosen"] / min(of["major"], of["minor"]) for of in result["shapes"])
    assert 0 <= result["gained"] <= 1 and 0 <= result["minor"] <= 1
    assert result["machine"]["threads"] == torch.get_num_threads()


def test_the_bench_tells_them_as_a_table(capsys):
    assert run_command(["research", "layout", *TINY]) == 0
    out = capsys.readouterr().out
    assert "milliseconds of a step" in out and "the chosen layout takes at most" in out


@pytest.mark.parametrize("device", DEVICES)
def test_the_bench_measures_an_output_layer(device, capsys):
    assert run_command(["research", "layout", *TINY, "--tokens", "9", "--device", device, "--json"]) == 0
    shapes = json.loads(capsys.readouterr().out)["shapes"]
    assert [(of["hidden"], of["batch"]) for of in shapes] == [(4, 3), (6, 3)]
    assert all(of["major"] > 0 and of["minor"] > 0 for of in shapes)
    assert run_command(["research", "layout", *TINY, "--tokens", "9"]) == 0
    assert "milliseconds of an output layer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--tokens=0", "tokens must be above 0, got 0"),
        ("--hidden=4,x", "hidden must be integers with commas between, got '4,x'"),
        ("--batch=0", "batch must be above 0, got 0"),
        ("--seconds=-1", "seconds must be finite and at least 0, got -1.0"),
        ("--seconds=inf", "seconds must be finite and at least 0, got inf"),
        ("--device=tpu", "device must be one of cpu, cuda, got 'tpu'"),
    ],
)
def test_options_that_make_no_sense_are_refused(option, message, capsys):
    assert run_command(["research", "layout", option]) == 2
    assert message in capsys.readouterr().err
