"""Random parameters under PyTorch's names."""

import numpy as np


def state_dict(inputs: int, hidden: int, layers: int, directions: int) -> dict[str, np.ndarray]:
    """Draw a state dict as ``torch.nn.LSTM`` has it."""
    generator, arrays = np.random.default_rng(3), {}
    for layer in range(layers):
        for suffix in ("", "_reverse")[:directions]:
            width = inputs if layer == 0 else directions * hidden
            shapes = {"weight_ih": (4 * hidden, width), "weight_hh": (4 * hidden, hidden),
                      "bias_ih": (4 * hidden,), "bias_hh": (4 * hidden,)}  # fmt: skip
            for name, shape in shapes.items():
                arrays[f"{name}_l{layer}{suffix}"] = generator.normal(size=shape, scale=0.5).astype(np.float32)
    return arrays
