"""Modules to and from ONNX files."""

import numpy as np
import pytest
import torch

import etalstm.nn
from etalstm.errors import InterchangeError

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

LENGTHS = torch.tensor([6, 2, 4])


def run(path, **inputs):
    return runtime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"bias": False}, {"batch_first": True}], ids=str)
@pytest.mark.parametrize("kind", [torch.nn.LSTM, etalstm.nn.LSTM])
def test_a_model_answers_alike_under_onnxruntime(tmp_path, kind, options):
    torch.manual_seed(1)
    lstm, embedding = kind(5, 4, 2, **options), torch.nn.Embedding(9, 5)
    output = torch.nn.Linear(8 if options.get("bidirectional") else 4, 3, bias=options.get("bias", True))
    tokens = torch.randint(0, 9, (6, 3))
    first = options.get("batch_first", False)
    x = embedding(tokens.T if first else tokens)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=first, enforce_sorted=False)
    with torch.no_grad():
        h = lstm(packed)[1][0]
        expected = output(torch.cat([h[-2], h[-1]], 1) if options.get("bidirectional") else h[-1])
    etalstm.nn.write_onnx(tmp_path / "m.onnx", lstm, embedding, output)
    (logits,) = run(tmp_path / "m.onnx", tokens=tokens.numpy(), lengths=LENGTHS.numpy().astype(np.int32))
    np.testing.assert_allclose(logits, expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_module_comes_back_with_its_parameters_and_new_options(tmp_path, bidirectional):
    lstm = torch.nn.LSTM(5, 4, 2, bidirectional=bidirectional)
    etalstm.nn.write_onnx(tmp_path / "m.onnx", lstm)
    again = etalstm.nn.read_onnx(tmp_path / "m.onnx", batch_first=True, theta=0.1, storage="ms1")
    assert again.batch_first
    for name, value in lstm.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


def test_a_projection_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(InterchangeError, match=r"weight_hr_l0 .*: projections cannot be read"):
        etalstm.nn.write_onnx(tmp_path / "m.onnx", torch.nn.LSTM(5, 4, proj_size=2))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("number", "part"), [(0, "weight_ih_l0"), (1, "embedding"), (2, "the output layer's weight")], ids=str
)
def test_parts_of_another_dtype_are_refused_by_name(tmp_path, dtype, number, part):
    parts = [torch.nn.LSTM(5, 4), torch.nn.Embedding(9, 5), torch.nn.Linear(4, 3)]
    parts[number].to(dtype)
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(InterchangeError, match=rf"^{part} is of {name}.*expected float32"):
        etalstm.nn.write_onnx(tmp_path / "m.onnx", *parts)
    assert not list(tmp_path.iterdir())


def test_a_module_without_values_is_refused(tmp_path):
    with pytest.raises(
        InterchangeError, match="weight_ih_l0 is of float32 on the device meta, expected float32 with values"
    ):
        etalstm.nn.write_onnx(tmp_path / "m.onnx", torch.nn.LSTM(5, 4, device="meta"))
