"""LSTM modules to and from ONNX files."""

from pathlib import Path

import numpy as np
import torch

from etalstm.errors import InterchangeError
from etalstm.formats.interchange import onnx_read, onnx_write
from etalstm.formats.interchange.onnx_write import OPSETS, Network
from etalstm.formats.interchange.state import LstmState
from etalstm.nn.lstm import LSTM


def write_onnx(
    path: Path | str, lstm: torch.nn.LSTM, embedding: torch.nn.Embedding | None = None,
    output: torch.nn.Linear | None = None, per_step: bool = False, opset: int = OPSETS.start,
) -> None:  # fmt: skip
    """Write an LSTM, with the embedding before it and the output layer behind it, as an ONNX file.

    Inputs of the file are ``tokens`` (T, B), int64, or without an embedding ``x`` (T, B, I), float32; and ``lengths``
    (B,), int32. Time comes first, whatever the module's ``batch_first``. Initial states are zeros. Raises
    :class:`InterchangeError` if the module has a projection, the sizes do not fit together, a tensor is not of float32
    or not finite, `per_step` has no output layer, or ``onnx`` is not installed; ``OSError`` if the file cannot be
    written.

    Parameters
    ----------
    path : Path
        Replaced only by a complete file.
    lstm : torch.nn.LSTM
        Ours or PyTorch's; dropout and delta inputs are left out.
    embedding, output : modules, optional
        With an output layer the result is ``logits``, else ``y``, ``h_n`` and ``c_n``.
    per_step : bool
        Logits of every step, (T, B, C), instead of those of each sequence's last, (B, C).
    opset : int
        17 to 20.
    """
    state = LstmState.of_arrays({name: _array(name, value) for name, value in lstm.state_dict().items()})
    vectors = None if embedding is None else _array("embedding", embedding.weight)
    onnx_write.write_onnx(Path(path), Network(state, vectors, _layer(output), per_step), opset)


def read_onnx(path: Path | str, **options) -> LSTM:
    """Read the LSTM nodes of an ONNX file as one module.

    `options` are further arguments of :class:`etalstm.nn.LSTM`: ``batch_first``, ``dropout``, ``engine``, ``storage``
    and so on. Errors are those of :func:`etalstm.formats.interchange.onnx_read.read_onnx`.
    """
    state = onnx_read.read_onnx(Path(path))
    sizes = state.input_size, state.hidden_size, len(state.layers)
    module = LSTM(*sizes, bidirectional=state.directions == 2, **options)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in state.arrays().items()})
    return module


def _layer(output: torch.nn.Linear | None) -> tuple[np.ndarray, np.ndarray] | None:
    if output is None:
        return None
    weights = _array("the output layer's weight", output.weight)
    if output.bias is None:
        return weights, np.zeros(output.out_features, np.float32)
    return weights, _array("the output layer's bias", output.bias)


def _array(name: str, value: torch.Tensor) -> np.ndarray:
    try:
        return value.detach().cpu().numpy()
    except (TypeError, NotImplementedError) as error:  # NumPy has no such dtype, or the tensor has no values
        dtype = str(value.dtype).removeprefix("torch.")
        raise InterchangeError(
            f"{name} is of {dtype} on the device {value.device}, expected float32 with values"
        ) from error
