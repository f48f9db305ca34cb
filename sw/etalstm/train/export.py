"""A trained network as a file that others read, in a format that the file's name says.

``.safetensors`` has PyTorch's names: ``embedding.weight`` (tokens, E); ``lstm.weight_ih_l0`` (4H, I),
``lstm.weight_hh_l0`` (4H, H), ``lstm.bias_ih_l0`` and ``lstm.bias_hh_l0`` (4H,), and so on for each layer;
``linear.weight`` (C, H) and ``linear.bias`` (C,). The two biases of a layer are one in this program. It is exported as
the first; the second is zero.

``.onnx`` has the whole computation: :mod:`etalstm.formats.interchange.onnx_write`.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save

from etalstm.formats.interchange.onnx_write import Network, write_onnx
from etalstm.formats.interchange.state import LstmState
from etalstm.host.durable import write_whole
from etalstm.network.shape import LayerParameters
from etalstm.train.model import BIAS, EMBEDDING, HostModel


def pytorch_tensors(layers: list[LayerParameters], model: HostModel) -> dict[str, np.ndarray]:
    """Give all parameters by PyTorch's names, float32."""
    tensors = {"embedding.weight": model.parameters[EMBEDDING]} if model.identity.tokens else {}
    tensors |= {f"lstm.{name}": array for name, array in LstmState.of_layers(layers).arrays().items()}
    tensors |= {"linear.weight": model.output_weights, "linear.bias": model.parameters[BIAS]}
    return {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def write_safetensors(path: Path, layers: list[LayerParameters], model: HostModel) -> None:
    """Write all parameters by PyTorch's names into a safetensors file; :class:`OSError` if that cannot be."""
    write_whole(path, save(pytorch_tensors(layers, model)))


def write_network(path: Path, layers: list[LayerParameters], model: HostModel) -> None:
    """Write the whole network into an ONNX file: :func:`etalstm.formats.interchange.onnx_write.write_onnx`."""
    embedding = model.parameters[EMBEDDING] if model.identity.tokens else None
    output = model.output_weights, model.parameters[BIAS]
    write_onnx(path, Network(LstmState.of_layers(layers), embedding, output, model.identity.per_step))


FORMATS = {".safetensors": write_safetensors, ".onnx": write_network}
"""What a file's ending says of its format."""
