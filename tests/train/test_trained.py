"""What was trained can be used: any batch size and length, any device, the same answers."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from etalstm.cli.main import run
from etalstm.data import open_data, open_dataset
from etalstm.errors import CheckpointError, DataError, RunError
from etalstm.train import load
from etalstm.train.folder import BEST, CHECKPOINT, ENCODING, METRICS, RunFolder
from etalstm.train.trained import draw

POSITIVE, NEGATIVE = ("fine", "great", "lovely"), ("dull", "poor", "awful")
TEXT = "the cat saw the dog and the dog saw the cat. " * 150


def train(out, *options):
    assert run(["train", "--out", str(out), *map(str, options)]) == 0
    return out


def entries(out):
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """A run on texts with labels, everything told from one word."""
    folder = tmp_path_factory.mktemp("reviews")
    lines = [f"{'a film ' * (n % 5)}{(POSITIVE, NEGATIVE)[n % 2][n % 3]} that,{'pn'[n % 2]}\n" for n in range(300)]
    (folder / "r.csv").write_text("review,class\n" + "".join(lines))
    options = ["--task", "classify", "--data", folder / "r.csv", "--hidden", 16, "--embedding", 8, "--epochs", 6]
    return train(folder / "run", *options, "--layers", 2)


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    """A run on plain text, its output layer tied to the embedding."""
    folder = tmp_path_factory.mktemp("language")
    (folder / "t.txt").write_text(TEXT)
    options = ["--task", "language", "--data", folder / "t.txt", "--hidden", 32, "--tied", "--optimizer", "adam"]
    return train(folder / "run", *options, "--lr", 0.01, "--steps", 16, "--batch", 8, "--epochs", 8)


def test_texts_of_any_number_and_length_are_answered(reviews):
    texts = [f"{'a film ' * n}{word} that" for n in range(7) for word in POSITIVE + NEGATIVE]
    with load(reviews) as model:
        answers = model.predict(texts)
        assert answers == (["p"] * 3 + ["n"] * 3) * 7
        assert [model.predict([text])[0] for text in texts[::5]] == answers[::5], "alone as among others"


def test_an_evaluation_is_that_of_the_run_at_any_batch_size(reviews):
    tested = entries(reviews)[-1]
    with load(reviews, checkpoint="last") as model:
        data = open_dataset_of(reviews)
        assert model.evaluate(data)["loss"] == tested["loss"]
        assert model.evaluate(data, batch=7)["loss"] == pytest.approx(tested["loss"], rel=1e-6)
        assert model.evaluate(data, "train")["accuracy"] > 0.95


def test_a_trained_network_broadcasts_what_the_run_did(tmp_path):
    options = "--dataset", "digits", "--hidden", 8, "--iterations", 12, "--input-threshold", 0.3, "--refresh", 4
    run_folder = train(tmp_path / "run", *options)
    settings, data = RunFolder(run_folder).read_settings(), open_dataset_of(run_folder)
    with load(run_folder, checkpoint="last") as model:
        assert model.evaluate(data)["loss"] == entries(run_folder)[-1]["loss"]
    RunFolder(run_folder).write_settings(replace(settings, input_threshold="0", refresh=None))
    with load(run_folder, checkpoint="last") as model:
        assert model.evaluate(data)["loss"] != entries(run_folder)[-1]["loss"], "the thresholds change nothing"


def open_dataset_of(folder):
    return open_data(RunFolder(folder).read_settings())


def test_devices_give_the_same_answers(reviews):
    found = []
    for device in ("golden", "sim"):
        with load(reviews, device, "test") as model:
            data = open_dataset_of(reviews)
            found.append((model.predict(["fine film", "a dull film"]), model.evaluate(data, batch=4, steps=5)))
    assert found[0] == found[1]


def test_the_best_is_taken_if_nothing_is_said(reviews):
    with load(reviews) as best, load(reviews, checkpoint="last") as last:
        weights = [model.layers[0].weights for model in (best, last)]
    expected = [load_file(reviews / name)["lstm.0.weights"] for name in (BEST, CHECKPOINT)]
    assert all(map(np.array_equal, weights, expected))


def test_a_text_goes_on_as_the_language_did(language):
    with load(language) as model:
        assert model.generate("the cat saw", 9, temperature=0) == " the dog "
        drawn = [model.generate("the ", 30, temperature=3, seed=seed) for seed in (0, 0, 1)]
        assert drawn[0] == drawn[1] != drawn[2] and len(drawn[0]) == 30
        assert model.predict(["the ca"]) == ["t"]


def test_tokens_are_drawn_by_their_probabilities():
    generator, logits = np.random.default_rng(0), np.log(np.array([0.1, 0.6, 0.3], np.float32))
    drawn = np.bincount([draw(logits, 1.0, generator) for _ in range(4000)], minlength=3) / 4000
    assert np.abs(drawn - [0.1, 0.6, 0.3]).max() < 0.03
    assert draw(logits, 0.0, generator) == 1


def test_an_export_has_pytorchs_names_and_computes_the_same(reviews, tmp_path):
    with load(reviews) as model:
        model.export(tmp_path / "m.safetensors")
        texts = ["a film fine that", "dull that"]
        tensors, expected = load_file(tmp_path / "m.safetensors"), model.predict(texts)
        answers = [model.encoding.labels[forward64(tensors, model.encoding.encode(text)).argmax()] for text in texts]
    assert answers == expected
    assert {f"lstm.{name}_l{n}" for n in range(2) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")} | {
        "embedding.weight", "linear.weight", "linear.bias"
    } == set(tensors)  # fmt: skip


def forward64(tensors, tokens):
    """The network in float64, by the names and the gates of PyTorch."""
    x = tensors["embedding.weight"][tokens].astype(np.float64)
    for n in range(2):
        weights = {name: tensors[f"lstm.{name}_l{n}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        h = c = np.zeros(weights["weight_hh"].shape[1])
        states = []
        for step in x:
            z = weights["weight_ih"] @ step + weights["weight_hh"] @ h + weights["bias_ih"] + weights["bias_hh"]
            i, f, g, o = np.split(z, 4)
            i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
            c = f * c + i * np.tanh(g)
            h = o * np.tanh(c)
            states.append(h)
        x = np.array(states)
    return tensors["linear.weight"] @ x[-1] + tensors["linear.bias"]


def test_what_is_wrong_with_inputs_is_said(reviews, language):
    with load(reviews) as model:
        for inputs, message in (
            ([""], "sequence 0: must be tokens, at least one"),
            (["fine", np.array([0, 99])], "sequence 1: tokens must be 0 to .*, got 99"),
            ([np.array([-5, 2])], "sequence 0: tokens must be 0 to .*, got -5"),
            ([np.array([1.7, 2.2])], "sequence 0: tokens must be integers, got float64"),
            ([np.zeros((3, 2), np.int64)], r"must be tokens, .* shape \(3, 2\)"),
        ):
            with pytest.raises(DataError, match=message):
                model.predict(inputs)
        with pytest.raises(ValueError, match="only a network of the task language generates, this one's is classify"):
            model.generate("fine", 3)
        with pytest.raises(ValueError, match="trained for other data: its outputs is 2, theirs is 10"):
            model.evaluate(open_dataset("digits"))
        with pytest.raises(ValueError, match=r"ending must be one of \.safetensors, \.onnx, got '\.pt'"):
            model.export("m.pt")
    with load(language) as model:
        with pytest.raises(ValueError, match="temperature must be finite and at least 0, got -1"):
            model.generate("the", 3, temperature=-1)
        with pytest.raises(ValueError, match="length must be above 0, got 0"):
            model.generate("the", 0)
        with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
            model.generate("the", 3, seed=-1)


def test_damaged_folders_are_refused_by_file_and_field(reviews, tmp_path):
    for path in filter(Path.is_file, reviews.iterdir()):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    encoding = json.loads((tmp_path / ENCODING).read_text())
    for change, error, message in (
        ({"unit": 3}, RunError, f"{ENCODING}: unit: .*string, got 3"),
        ({"colour": 3}, RunError, f"{ENCODING}: colour is unknown here"),
        ({"labels": ["a", "b"]}, CheckpointError, "its tokens and labels are not those of the folder"),
    ):
        (tmp_path / ENCODING).write_text(json.dumps(encoding | change))
        with pytest.raises(error, match=message):
            load(tmp_path)
    (tmp_path / ENCODING).write_text("[" * 100_000)
    with pytest.raises(RunError, match=f"{ENCODING}: no JSON"):
        load(tmp_path)
    with pytest.raises(RunError, match=r"holds no settings\.toml"):
        load(tmp_path / "none")
    with pytest.raises(ValueError, match="checkpoint must be one of last, best, got 'first'"):
        load(reviews, checkpoint="first")


def output(capsys, *arguments):
    capsys.readouterr()
    code = run(list(map(str, arguments)))
    return code, capsys.readouterr()


def test_the_commands_say_what_the_model_does(reviews, language, tmp_path, capsys):
    code, shown = output(capsys, "predict", reviews, "fine that", "poor that")
    assert code == 0 and shown.out == "p\nn\n"
    lines = tmp_path / "lines.txt"
    lines.write_bytes("a film great that\r\n\nawful\u2028that\x0c\nfine that".encode())
    assert output(capsys, "predict", reviews, "--file", lines, "--json")[1].out == '"p"\nnull\n"n"\n"p"\n'
    assert output(capsys, "predict", reviews, "--file", lines)[1].out == "p\n\nn\np\n"
    found = json.loads(output(capsys, "evaluate", reviews, "--json")[1].out)
    with load(reviews) as model:
        assert found == model.evaluate(open_dataset_of(reviews))
    (tmp_path / "other.csv").write_text("review,class\nfine that,p\npoor that,p\n")
    assert "accuracy 0.5" in output(capsys, "evaluate", reviews, "--data", tmp_path / "other.csv")[1].out
    code, shown = output(capsys, "generate", language, "the cat", "--length", 8, "--temperature", 0)
    assert code == 0 and shown.out == "the cat saw the\n"
    assert output(capsys, "export", reviews, "-o", tmp_path / "m.safetensors")[0] == 0
    assert len(load_file(tmp_path / "m.safetensors")) == 11


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "none"], "none must be the folder of a run"),
        (["predict", "RUN"], "there must be texts to answer, or a file"),
        (["predict", "RUN", "a", "--file", "b"], "there must be texts to answer, or a file"),
        (["predict", "RUN", "--file", "none.txt"], "none.txt: cannot be read: No such file"),
        (["generate", "RUN", "a"], "only a network of the task language generates"),
        (["predict", "RUN", "--file", "a.csv"], "a.csv: must be a file of a text a line, but its ending is .csv"),
        (["evaluate", "RUN", "--split", "dev"], "unknown split 'dev'"),
        (["evaluate", "RUN", "--batch", "0"], "batch must be above 0, got 0"),
        (["evaluate", "RUN", "--steps", "0"], "steps must be above 0, got 0"),
        (["evaluate", "RUN", "--device", "abacus"], "unknown device 'abacus'"),
        (["export", "RUN", "-o", "/proc/none.safetensors"], "/proc/none.safetensors"),
    ],
)
def test_bad_input_is_one_line(reviews, capsys, arguments, message):
    code, shown = output(capsys, *[reviews if word == "RUN" else word for word in arguments])
    assert code == 2 and message in shown.err and shown.err.count("\n") == 1, shown.err


def test_numbers_are_answered_step_by_step_or_as_a_whole(tmp_path, capsys):
    rows = [(n, t, (n * 7 + t) % 5 / 5) for n in range(60) for t in range(2 + n % 3)]
    content = "sequence,t,a,y\n" + "".join(f"{n},{t},{a},{a if t else 0}\n" for n, t, a in rows)
    (tmp_path / "n.csv").write_text(content)
    options = ["--data", tmp_path / "n.csv", "--hidden", 6, "--epochs", 1, "--batch", 8]
    regress = train(tmp_path / "regress", "--task", "regress", *options)
    assert "rmse" in entries(regress)[-1]
    answers = output(capsys, "predict", regress, "--file", tmp_path / "n.csv")[1].out.splitlines()
    assert len(answers) == 60 and all(re.fullmatch(r"-?\d+\.\d+(e-\d+)?", answer) for answer in answers)
    tag = train(tmp_path / "tag", "--task", "tag", *options)
    (tmp_path / "inputs.csv").write_text("\n".join(line.rpartition(",")[0] for line in content.splitlines()))
    answers = output(capsys, "predict", tag, "--file", tmp_path / "inputs.csv")[1].out.splitlines()
    assert [len(answer.split()) for answer in answers] == [2 + n % 3 for n in range(60)]


def test_an_evaluation_takes_sequences_of_fewer_steps_than_the_run(tmp_path, capsys):
    def table(name, steps):
        rows = (f"{n},{t},{n % 2},{'ab'[n % 2]}\n" for n in range(40) for t in range(steps))
        (tmp_path / name).write_text("sequence,t,a,label\n" + "".join(rows))
        return tmp_path / name

    options = ["--task", "classify", "--hidden", 4, "--epochs", 1, "--batch", 8, "--steps", 6]
    folder = train(tmp_path / "run", "--data", table("long.csv", 6), *options)
    short = table("short.csv", 3)
    found = [json.loads(output(capsys, "evaluate", folder, "--data", short, "--json", *steps)[1].out)
             for steps in ([], ["--steps", 3])]  # fmt: skip
    assert found[0] == found[1], "steps that are not there count for nothing"
    with load(folder) as model:
        for bad, message in ((np.nan, "got nan"), (1e40, r"got 1e\+40"), (1j, "must be numbers, got complex")):
            with pytest.raises(DataError, match=f"sequence 1: .*{message}"):
                model.predict([np.ones((2, 2)), np.full((3, 2), bad)])
