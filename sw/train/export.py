"""A trained network as a file that others read: safetensors with PyTorch's names.

``embedding.weight`` (tokens, E); ``lstm.weight_ih_l0`` (4H, I), ``lstm.weight_hh_l0`` (4H, H), ``lstm.bias_ih_l0``
and ``lstm.bias_hh_l0`` (4H,), and so on for each layer; ``linear.weight`` (C, H), ``linear.bias`` (C,). The two biases
of a layer are one in this program. It is exported as the first; the second is zero.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save

from etalstm.durable import write_whole
from etalstm.network import LayerParameters
from etalstm.train.model import BIAS, EMBEDDING, HostModel


def pytorch_tensors(layers: list[LayerParameters], model: HostModel) -> dict[str, np.ndarray]:
    """Give all parameters by PyTorch's names, float32."""
    tensors = {"embedding.weight": model.parameters[EMBEDDING]} if model.identity.tokens else {}
    for n, layer in enumerate(layers):
        inputs, recurrent = np.split(layer.weights, [layer.input_size], axis=1)
        tensors |= {f"lstm.weight_ih_l{n}": inputs, f"lstm.weight_hh_l{n}": recurrent}
        tensors |= {f"lstm.bias_ih_l{n}": layer.bias, f"lstm.bias_hh_l{n}": np.zeros_like(layer.bias)}
    tensors |= {"linear.weight": model.output_weights, "linear.bias": model.parameters[BIAS]}
    return {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def write_safetensors(path: Path, layers: list[LayerParameters], model: HostModel) -> None:
    """Write all parameters by PyTorch's names into a safetensors file; :class:`OSError` if that cannot be."""
    write_whole(path, save(pytorch_tensors(layers, model)))


FORMATS = {".safetensors": write_safetensors}
"""What a file's ending says of its format."""
