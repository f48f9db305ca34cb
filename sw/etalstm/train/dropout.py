"""Dropout between layers: each layer has a session, and the host masks what passes from one layer to the next.

In a device's own session outputs and gradients between layers never leave the device. With dropout they move to the
host and back. If no element is dropped, the bits are those of one session except for the clipping scale: the host adds
the layers' norms.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from etalstm.device import Device, InputGradients, Outputs, Session, TrainingShape
from etalstm.device.results import BothPasses, add_counts
from etalstm.errors import CallOrderError
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.exponents import Exponents
from etalstm.network.shape import LayerGradients, LayerParameters
from etalstm.network.storage import Storage, Usage
from etalstm.network.update_rule import clip_scale


@dataclass(frozen=True)
class LayeredGradients:
    """What a backward pass gives back: gradient of the input, float32, (T, B, I), and the passes of the layers."""

    dx: np.ndarray
    passes: list[InputGradients]

    @property
    def norm(self) -> float:
        """2-norm of the gradient of all layers; :class:`DivergedError` if it is not finite."""
        return math.sqrt(math.fsum(back.norm * back.norm for back in self.passes))


class LayeredSession(BothPasses[LayeredGradients]):
    """What :class:`etalstm.device.Session` is to a trainer, with dropout between the layers.

    `shape`: of all layers. `share`: of the elements that are dropped; the others are divided by 1 - `share`. `seed`:
    of the run. The masks of an update depend on the seed and the update's number only.
    """

    def __init__(self, device: Device, shape: TrainingShape, share: float, seed: int):
        self.shape, self._share, self._seed = shape, share, seed
        network = shape.network
        self._layers = [
            device.create(
                replace(shape, network=network.of_layers(range(n, n + 1)), execution=shape.execution.of_layers([n]))
            )
            for n in range(network.layers)
        ]
        self.reduces = all(layer.reduces for layer in self._layers)
        self._masks: list[np.ndarray] | None = None  # of the last forward pass
        self._next_update: int | None = None  # whose masks the next forward pass draws
        self._back: LayeredGradients | None = None

    def draw_masks(self, number: int) -> None:
        """Drop elements in the next forward pass, that of update `number`; other forward passes drop nothing."""
        self._next_update = number

    def _draw(self, number: int, steps: int) -> list[np.ndarray]:
        """Give the masks, float32, (T, B, H), that the outputs of each layer except the top one are multiplied by."""
        generator = np.random.Generator(np.random.PCG64([self._seed, 3, number]))  # 1: the host's parameters, 2: order
        scale = np.float32(1 / (1 - self._share))
        size = len(self._layers) - 1, steps, *self.shape.y_shape[1:]
        return list((generator.random(size, np.float32) >= np.float32(self._share)) * scale)

    def load(self, parameters: list[LayerParameters], velocities: list[LayerParameters] | None = None) -> None:
        """Put weights and velocities on the device."""
        for n, layer in enumerate(self._layers):
            layer.load(parameters[n : n + 1], velocities and velocities[n : n + 1])

    @property
    def exponents(self) -> list[Exponents]:
        """With integers the exponents of each layer's session, else []."""
        return [exponents for layer in self._layers for exponents in layer.exponents]

    def store_as(self, storage: Storage) -> None:
        """Store intermediates as `storage` says from the next forward pass on."""
        for n, layer in enumerate(self._layers):
            layer.store_as(storage.of_layers([n]))
        self.shape = self.shape.with_execution(storage=storage)

    def send_as(self, delta_inputs: DeltaInputs) -> None:
        """Send x and h as `delta_inputs` says from the next forward pass on."""
        for n, layer in enumerate(self._layers):
            layer.send_as(delta_inputs.of_layers([n]))
        self.shape = self.shape.with_execution(delta_inputs=delta_inputs)

    def forward(
        self, x: np.ndarray, lengths: np.ndarray | None = None, h0: np.ndarray | None = None,
        c0: np.ndarray | None = None, skipped_cells: np.ndarray | None = None, tokens: np.ndarray | None = None,
    ) -> Outputs:  # fmt: skip
        """Run all layers forward; arguments as those of a session."""
        self._masks = None if self._next_update is None else self._draw(self._next_update, len(x))
        self._next_update = None
        states = []
        for n, layer in enumerate(self._layers):
            h_0, c_0, skipped = (None if array is None else array[n : n + 1] for array in (h0, c0, skipped_cells))
            outputs = layer.forward(x, lengths, h_0, c_0, skipped, None if n else tokens)
            states.append((outputs.h, outputs.c))
            x = outputs.y if self._masks is None or n == len(self._masks) else outputs.y * self._masks[n]
        h, c = (np.concatenate(arrays) for arrays in zip(*states, strict=True))
        return Outputs(outputs.y, h, c)

    def backward(self, dy: np.ndarray, delta_threshold: float = 0.0) -> LayeredGradients:
        """Run all layers backward."""
        passes = []
        for n in reversed(range(len(self._layers))):
            passes.append(self._layers[n].backward(dy, delta_threshold=delta_threshold))
            dy = passes[-1].dx if not n or self._masks is None else passes[-1].dx * self._masks[n - 1]
        self._back = LayeredGradients(dy, passes)
        return self._back

    def update(
        self, learning_rate: float, momentum: float = 0.0, clip: float | None = None, weight_decay: float = 0.0,
        compensation: float = 1.0,
    ) -> None:  # fmt: skip
        """Change weights and velocities, clipped by the norm of all layers together."""
        if self._back is None:
            raise CallOrderError("update needs a backward pass before it")
        scale = float(np.float32(compensation * clip_scale(self._back.norm * compensation, clip)))
        for layer in self._layers:
            layer.update(learning_rate, momentum, None, weight_decay, scale)

    def scrub(self) -> None:
        """Compare the device's memory, see :meth:`etalstm.device.Session.scrub`."""
        for layer in self._layers:
            layer.scrub()

    def parameters(self) -> list[LayerParameters]:
        """Read the weights and biases."""
        return [layer.parameters()[0] for layer in self._layers]

    def velocities(self) -> list[LayerParameters]:
        """Read the velocities."""
        return [layer.velocities()[0] for layer in self._layers]

    def gradients(self) -> list[LayerGradients]:
        """Read dW and db."""
        return [layer.gradients()[0] for layer in self._layers]

    def usage(self) -> list[Usage]:
        """Count what each layer stored and computed."""
        return [usage for layer in self._layers for usage in layer.usage()]

    def contributions(self) -> np.ndarray:
        """Measure what every cell adds to the weight gradient, float64, (L, T, B)."""
        return np.concatenate([layer.contributions() for layer in self._layers])

    def counters(self) -> dict:
        """Add up the layers' counters."""
        return add_counts([layer.counters() for layer in self._layers])

    def memory(self) -> dict:
        """Describe the memory that each layer takes; {} where the device has none of its own."""
        layers = [layer.memory() for layer in self._layers]
        return {"layers": layers} if any(layers) else {}


AnySession = Session | LayeredSession
"""What a trainer computes with: a device's own session, or with dropout one for each layer."""
AnyGradients = InputGradients | LayeredGradients  # what a backward pass of either gives
