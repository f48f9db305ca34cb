import signal
from dataclasses import asdict, replace
from functools import partial

import pytest
import torch
from safetensors.torch import load_file

from etalstm.device import open_device
from etalstm.errors import CheckpointError, DivergedError, RunError
from etalstm.research.compress import load_network
from etalstm.research.compress.changes import Guides
from etalstm.research.compress.learner import Learner
from etalstm.research.compress.network import Sizes
from etalstm.research.compress.task import LanguageModel
from etalstm.research.compress_settings import PHASES, CompressSettings
from etalstm.train.metrics import read_log
from etalstm.train.sealed import write_sealed
from tests.research.compress.runs import check_interrupted, files_of, kill_run, make_run, rounds_of, without_seconds

SMALL = {"hidden": 10, "embedding": 6, "batch": 4, "steps": 5, "epochs": 2, "growth_epochs": 1, "rounds": 3}
LOOSE = {"tolerance": 9.0, "unit_ratio": 0.3}  # every round is accepted


def settings_of(text, **options):
    return CompressSettings(**{"data": str(text), "profile": "p.json", "seed": 3, **SMALL, **options})


@pytest.fixture
def guides(make_profile):
    return Guides(make_profile([2, 4, 8, 10]))


@pytest.fixture
def go(guides):
    """Give a function that makes a run in a folder, and gives its last entry."""
    return partial(make_run, guides)


def test_all_steps_together(text, tmp_path, go):
    last = go(settings_of(text, **LOOSE), tmp_path / "run")
    rounds = rounds_of(tmp_path / "run")
    assert list(dict.fromkeys(one["phase"] for one in rounds)) == [
        "dense",
        "grow-weights",
        "prune-units",
        "prune-weights",
    ]
    assert all(one["decision"] == "accepted" for one in rounds)
    parameters = [one["lstm_parameters"] for one in rounds]
    assert parameters[1] < parameters[0] and parameters[1:] == sorted(parameters[1:], reverse=True)
    assert [one["units"] for one in rounds if one["phase"] == "prune-units"] == [[4, 4], [2, 2], [2, 2]]
    assert last["fold"] == parameters[0] / parameters[-1] and last["cycles"] == 4 and last["reached"]
    assert last["ended"]["grow-units"] == "no layer has a larger size to grow to"


@pytest.mark.parametrize("phase", PHASES)
def test_each_step_by_itself(phase, text, tmp_path, go):
    last = go(settings_of(text, phases=(phase,), rounds=1, **LOOSE), tmp_path / "run")
    assert last["kind"] == "test" and phase in last["ended"]
    rounds = rounds_of(tmp_path / "run")
    assert [one["phase"] for one in rounds] == ["dense"] + [phase] * (phase != "grow-units")


def test_an_hlstm_grows_weights_and_loses_units_and_weights(text, tmp_path, go):
    phases = "grow-weights", "prune-units", "prune-weights"
    last = go(settings_of(text, cell="hlstm", phases=phases, **LOOSE), tmp_path / "run")
    rounds = rounds_of(tmp_path / "run")
    assert [one["units"] for one in rounds if one["phase"] == "prune-units"] == [[4, 4], [2, 2], [2, 2]]
    assert last["fold"] > 10 and last["cycles"] == 4


def test_weights_grow_from_a_sparse_seed(text, tmp_path, go):
    go(settings_of(text, phases=("grow-weights",), density=0.25), tmp_path / "run")
    grown = [entry["grown"] for entry in read_log(tmp_path / "run/metrics.jsonl") if "grown" in entry]
    dense, sparse = rounds_of(tmp_path / "run")
    matrices = 40 * (6 + 10 + 10 + 10)
    assert len(grown) == 1 and grown[0] > 0 and dense["lstm_parameters"] == matrices + 4 * 40
    assert sparse["lstm_parameters"] == matrices // 4 + grown[0] + 4 * 40


def test_units_that_were_pruned_freely_grow_back_to_the_next_point(text, tmp_path, go):
    phases = ("prune-units", "grow-units")
    go(settings_of(text, phases=phases, guided="growth", rounds=1, **LOOSE), tmp_path / "run")
    assert [one["units"] for one in rounds_of(tmp_path / "run")[1:]] == [[7, 7], [8, 8]]


def test_a_round_that_loses_accuracy_is_taken_back(text, tmp_path, go):
    strict = {"tolerance": 0.0, "unit_ratio": 0.8, "rounds": 2, "retrain_rate": 1e-9}
    settings = settings_of(text, phases=("prune-units",), epochs=6, learning_rate=0.02, **strict)
    states = []
    last = go(settings, tmp_path / "run", report=lambda entry: states.append(entry.get("decision")))
    assert [one for one in states if one] == ["accepted", "rejected", "rejected"]
    dense, first, second = rounds_of(tmp_path / "run")
    assert sum(first["units"]) < sum(second["units"]) < sum(dense["units"]), "the second attempt is smaller"
    assert last["fold"] == 1.0 and last["perplexity"] == dense["test_perplexity"]


@pytest.fixture
def diverge(monkeypatch):
    """Give a function that has training diverge once, at an iteration."""
    iterate = Learner.iterate

    def at(wanted):
        left = [wanted]

        def diverging(self, batch, number, rate):
            if number in left:
                left.remove(number)
                raise DivergedError(f"iteration {number + 1}: loss inf")
            return iterate(self, batch, number, rate)

        monkeypatch.setattr(Learner, "iterate", diverging)

    return at


@pytest.mark.parametrize("phase", ["prune-units", "prune-weights"])
def test_a_round_that_diverges_is_taken_back(phase, text, tmp_path, go, diverge):
    diverge(17)  # in the first round: the dense start takes 14
    last = go(settings_of(text, phases=(phase,), **LOOSE | {"rounds": 2}), tmp_path / "run")
    dense, first, second = rounds_of(tmp_path / "run")
    assert (first["kind"], first["reason"]) == ("diverged", "iteration 18: loss inf")
    assert [one["decision"] for one in (dense, first, second)] == ["accepted", "rejected", "accepted"]
    assert first["lstm_parameters"] < second["lstm_parameters"] == last["lstm_parameters"]


def test_a_dense_start_that_diverges_ends_the_run(text, tmp_path, go, diverge):
    diverge(12)
    with pytest.raises(DivergedError, match="iteration 13: loss inf"):
        go(settings_of(text), tmp_path / "run")


def test_growth_that_does_not_fit_the_machine_is_left_out(text, tmp_path, guides):
    settings = settings_of(text, phases=("prune-units", "grow-units"), guided="growth", rounds=1, **LOOSE)
    last = make_run(guides, settings, tmp_path / "run", cycles=lambda sizes: 1 if sizes.units == (7, 7) else None)
    assert last["units"] == [7, 7] and last["ended"]["grow-units"] == "the larger network does not fit preset vcu128"


def test_the_network_that_was_kept_can_be_loaded_and_trained(text, tmp_path, go):
    last = go(settings_of(text, phases=("prune-units",), **LOOSE), tmp_path / "run")
    path = tmp_path / "run/network.safetensors"
    network = load_network(path)
    assert [layer.hidden_size for layer in network.layers] == last["units"] and not network.training
    assert network.embedding.embedding_dim == last["inputs"] == network.layers[0].input_size
    layer = torch.nn.LSTM(last["inputs"], last["units"][0])
    tensors = load_file(path)
    names = {name: tensors[f"layers.0.{name}"] for name in layer.state_dict()}
    layer.load_state_dict(names)
    x = network.embedding(torch.arange(6).reshape(3, 2))
    torch.testing.assert_close(layer(x)[0], network.layers[0](x)[0], rtol=0, atol=1e-5)
    network.train()(torch.arange(6).reshape(3, 2), network.no_states())[0].sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"task": "vision"}, "network.safetensors: task must be language or speech, got 'vision'"),
        ({"units": []}, "network.safetensors: units must name at least one layer"),
        ({"units": [3, 4]}, r"tensor layers.0.weight_ih_l0 has shape \(8, 6\), expected \(12, 6\)"),
        ({"cell": 3}, "network.safetensors: cell: Input should be a valid string, got 3"),
        ({"format": 2}, "written by a newer version of eta-lstm .format 2.; this one reads format 1"),
        ({"format": "1"}, "not a network of eta-lstm research compress"),
    ],
)
def test_a_network_that_cannot_be_is_refused(changed, message, tmp_path):
    sizes = Sizes(11, 6, (2, 4))
    described = {"format": 1, "task": "language", "dropout": 0.0, **asdict(sizes), "units": [2, 4]}
    tensors = {name: tensor.numpy() for name, tensor in LanguageModel(sizes).state_dict().items()}
    write_sealed(tmp_path / "network.safetensors", "etalstm-network", described | changed, tensors)
    with pytest.raises(CheckpointError, match=message):
        load_network(tmp_path / "network.safetensors")


def test_steps_that_cannot_be_are_left_out_of_the_default():
    for given, left_out in (
        ({"profile": "p.json"}, set()),
        ({}, {"grow-units"}),
        ({"profile": "p.json", "cell": "hlstm"}, {"grow-units"}),
        ({"task": "speech", "bidirectional": True, "grow_to": 8}, {"prune-units", "grow-units"}),
    ):
        assert set(PHASES) - set(CompressSettings.of({"data": "d", **given}).phases) == left_out


def test_a_target_that_is_reached_ends_pruning(text, tmp_path, go):
    last = go(settings_of(text, phases=("prune-units", "prune-weights"), target=1.5, **LOOSE), tmp_path / "run")
    assert last["reached"] and last["fold"] >= 1.5 and len(rounds_of(tmp_path / "run")) == 2
    assert last["ended"]["prune-weights"] == "target reached"


def test_a_target_that_cannot_be_reached_leaves_the_best(text, tmp_path, go):
    settings = settings_of(text, phases=("prune-weights",), target=1000.0, rounds=2, **LOOSE)
    last = go(settings, tmp_path / "run")
    assert not last["reached"] and 1 < last["fold"] < 1000
    assert last["lstm_parameters"] == rounds_of(tmp_path / "run")[-1]["lstm_parameters"]


def test_a_run_that_goes_on_has_the_bits_of_one_that_was_not_interrupted(text, tmp_path, go):
    settings = settings_of(text, dropout=0.2, **LOOSE)
    check_interrupted(go, settings, tmp_path, [3, 6, 14, 19, 26, 33])


@pytest.mark.parametrize("phase", ["prune-units", "prune-weights"])
@pytest.mark.parametrize(("first", "then"), [({"rounds": 1}, {"rounds": 3}), ({"target": 1.2}, {"target": 3.0})])
def test_a_run_that_ended_goes_on_with_more_rounds_or_another_target(first, then, phase, text, tmp_path, go):
    common = {"phases": (phase,), "tolerance": 10.0, "weight_ratio": 0.3}
    go(settings_of(text, **common, **first), tmp_path / "parts")
    made = len(rounds_of(tmp_path / "parts"))
    last = go(settings_of(text, **common, **then), tmp_path / "parts", resume=True)
    assert last == go(settings_of(text, **common, **then), tmp_path / "whole")
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "parts")
    assert len(rounds_of(tmp_path / "parts")) > made > 1
    files = files_of(tmp_path / "parts")
    go(settings_of(text, **common, **then | {"rounds": 1}), tmp_path / "parts", resume=True)
    assert files_of(tmp_path / "parts") == files, "fewer rounds than were made are enough"


@pytest.mark.parametrize("phases", [(), ("grow-weights",), ("prune-weights",)])
def test_a_run_that_ended_ends_alike_if_nothing_differs(phases, text, tmp_path, go):
    settings = settings_of(text, phases=phases, rounds=1, tolerance=10.0)
    last = go(settings, tmp_path / "run")
    files = files_of(tmp_path / "run")
    assert go(settings, tmp_path / "run", resume=True) == last
    assert files_of(tmp_path / "run") == files


@pytest.mark.parametrize("writes", [1, 4, 6])
def test_a_run_that_is_killed_goes_on_with_the_same_bits(writes, text, tmp_path, go):
    settings = settings_of(text, **LOOSE)
    go(settings, tmp_path / "whole")
    assert kill_run(go, settings, tmp_path / "parts", writes) == -signal.SIGKILL
    go(settings, tmp_path / "parts", resume=True)
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "parts")
    assert without_seconds(tmp_path / "parts") == without_seconds(tmp_path / "whole")


@pytest.mark.parametrize("phases", [(), ("grow-weights",), ("prune-units", "prune-weights")])
def test_a_run_from_the_dense_start_of_another_has_the_bits_of_one_that_trained_it(phases, text, tmp_path, go):
    go(settings_of(text, phases=(), dropout=0.2), tmp_path / "dense")
    settings = settings_of(text, phases=phases, dropout=0.2, **LOOSE)
    last = go(settings, tmp_path / "trained")
    assert go(replace(settings, start=str(tmp_path / "dense")), tmp_path / "taken") == last
    assert files_of(tmp_path / "taken") == files_of(tmp_path / "trained")
    trained = without_seconds(tmp_path / "trained")
    first = next(number for number, entry in enumerate(trained) if "decision" in entry)
    assert without_seconds(tmp_path / "taken") == trained[first:], "all but the epochs that were not needed"


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_a_run_that_is_killed_while_it_takes_a_dense_start_goes_on(writes, text, tmp_path, go):
    go(settings_of(text, phases=()), tmp_path / "dense")
    settings = settings_of(text, phases=("prune-weights",), rounds=1, start=str(tmp_path / "dense"), tolerance=9.0)
    go(settings, tmp_path / "whole")
    assert kill_run(go, settings, tmp_path / "parts", writes) == -signal.SIGKILL
    go(settings, tmp_path / "parts", resume=True)
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "parts")
    assert without_seconds(tmp_path / "parts") == without_seconds(tmp_path / "whole")


def test_a_dense_start_of_other_settings_or_data_is_refused(text, tmp_path, go):
    settings = settings_of(text, phases=())
    go(settings, tmp_path / "dense")
    for changed, message in (
        ({"epochs": 3}, "dense.safetensors: of another run: its epochs is 2, here it is 3"),
        ({"seed": 4}, "its seed is 3, here it is 4"),
    ):
        with pytest.raises(CheckpointError, match=message):
            go(replace(settings, start=str(tmp_path / "dense"), **changed), tmp_path / "run")
    train = text / "ptb.train.txt"
    train.write_text("\n".join(reversed(train.read_text().splitlines())))
    with pytest.raises(CheckpointError, match="of another run: its data is"):
        go(replace(settings, start=str(tmp_path / "dense")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("cell", ["lstm", "hlstm"])
def test_golden_and_the_simulated_machine_leave_the_same_bits(cell, text, tmp_path, go):
    settings = settings_of(
        text, cell=cell, hidden=4, embedding=3, layers=1, epochs=1, growth_epochs=0, tokens=70, evaluated=30, rounds=1,
        batch=3, steps=4, phases=("prune-units", "prune-weights"), **LOOSE,
    )  # fmt: skip
    golden = go(settings, tmp_path / "golden")
    with open_device("sim", "test") as device:
        assert go(settings, tmp_path / "sim", device) == golden
    assert files_of(tmp_path / "golden") == files_of(tmp_path / "sim")


def test_a_damaged_or_foreign_checkpoint_is_refused(text, tmp_path, go):
    settings, path = settings_of(text, phases=()), tmp_path / "run"
    go(settings, path)
    with pytest.raises(CheckpointError, match="of another run: its hidden is 10, here it is 11"):
        go(settings_of(text, phases=(), hidden=11), path, resume=True)
    content = bytearray((path / "checkpoint.safetensors").read_bytes())
    content[-1] ^= 1
    (path / "checkpoint.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="corrupted"):
        go(settings, path, resume=True)
    write_sealed(path / "checkpoint.safetensors", "etalstm-compress", {"format": 1}, {})
    with pytest.raises(
        CheckpointError, match=r"written by an older version of eta-lstm \(format 1\); this one reads format 4"
    ):
        go(settings, path, resume=True)


def test_settings_are_read_as_they_were_written_and_some_may_differ(text, tmp_path):
    settings = settings_of(text, target=2.0, grow_to=None)
    (tmp_path / "settings.toml").write_text(settings.text_of_file())
    assert CompressSettings.load(tmp_path / "settings.toml") == settings
    assert settings.going_on({"engine": "sim"}).engine == "sim"
    with pytest.raises(ValueError, match="hidden may not differ where a run goes on: it was 10, got 16"):
        settings.going_on({"hidden": 16})
    with pytest.raises(RunError, match="is it the folder of eta-lstm research compress"):
        CompressSettings.load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden must be above 0, got 0"),
        (
            {"phases": ("shrink",)},
            "phases must be some of grow-weights, prune-units, grow-units, prune-weights, got 's",
        ),
        ({"phases": ("prune-units", "grow-weights")}, "grow-weights begins with a sparse seed"),
        ({"growth_epochs": -1}, "growth_epochs must be at least 0, got -1"),
        ({"guided": "none"}, "guided must be all or growth, got 'none'"),
        ({"profile": None}, "grow-units needs a profile, whose points it grows to, or grow_to; got neither"),
        ({"profile": None, "grow_to": 11}, "grow_to must be at most hidden, 10 units, got 11"),
        ({"grow_to": 8}, "there must be one of them, got both"),
        ({"cell": "gru"}, "cell must be one of lstm, hlstm, got 'gru'"),
        ({"cell": "hlstm"}, "grow-units needs cell lstm, got hlstm"),
        (
            {"cell": "hlstm", "task": "speech", "bidirectional": True, "phases": ()},
            "bidirectional needs cell lstm, got hlstm",
        ),
        ({"target": 1.0}, "target must be above 1 and finite, got 1.0"),
        ({"unit_ratio": 1.0}, "unit_ratio must be above 0 and below 1, got 1.0"),
        ({"density": 0.0}, "density must be above 0 and at most 1, got 0.0"),
        ({"tolerance": -0.1}, "tolerance must be at least 0 and finite, got -0.1"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"retrain_rate": 0.0}, "retrain_rate must be above 0 and finite, got 0.0"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"task": "vision"}, "task must be language or speech, got 'vision'"),
        ({"bidirectional": True}, "bidirectional is for the task speech: a language model must not see the next word"),
        ({"task": "speech", "bidirectional": True}, "prune-units needs layers of one direction, got bidirectional"),
        ({"task": "speech", "stack": 0}, "stack must be above 0, got 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        settings_of("data", **options)
