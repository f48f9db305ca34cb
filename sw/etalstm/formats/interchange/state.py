"""The parameters of a stack of LSTM layers by the names that PyTorch gives them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from etalstm.errors import InterchangeError
from etalstm.network.shape import GATES, LayerParameters

SUFFIXES = ("", "_reverse")  # of the names of a layer's directions


@dataclass(frozen=True)
class Direction:
    """One direction of one layer; rows ``gate*H + unit``, gates i, f, g, o.

    All are float32: weight_ih (4H, I), weight_hh (4H, H), bias_ih and bias_hh (4H,).
    """

    weight_ih: np.ndarray
    weight_hh: np.ndarray
    bias_ih: np.ndarray
    bias_hh: np.ndarray

    @property
    def input_size(self) -> int:
        """Inputs I."""
        return self.weight_ih.shape[1]

    @property
    def hidden_size(self) -> int:
        """Units H."""
        return self.weight_hh.shape[1]


NAMES = tuple(Direction.__dataclass_fields__)


@dataclass(frozen=True)
class LstmState:
    """A stack of LSTM layers of one size, all with one direction or all with two, the forward direction first.

    If the sizes do not fit together, the :class:`InterchangeError` names the parameter, its shape and the one expected.
    """

    layers: tuple[tuple[Direction, ...], ...]

    def __post_init__(self):
        if not self.layers:
            raise InterchangeError("there must be at least one LSTM layer, got none")
        inputs, hidden, directions = self.input_size, self.hidden_size, self.directions
        for number, layer in enumerate(self.layers):
            if len(layer) != directions:
                raise InterchangeError(f"layer {number} has {len(layer)} directions, layer 0 has {directions}")
            for suffix, direction in zip(SUFFIXES, layer, strict=False):
                _check(f"l{number}{suffix}", direction, inputs, hidden)
            inputs = directions * hidden

    @property
    def directions(self) -> int:
        """1, or 2 if the layers are bidirectional."""
        return len(self.layers[0])

    @property
    def input_size(self) -> int:
        """Inputs I of the first layer."""
        return self.layers[0][0].input_size

    @property
    def hidden_size(self) -> int:
        """Units H of every layer and direction."""
        return self.layers[0][0].hidden_size

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "LstmState":
        """Read a state dict, as ``torch.nn.LSTM`` has it; absent biases are zeros.

        :class:`InterchangeError` if a parameter is missing, unknown, not of float32, not finite, or of a wrong shape.
        """
        left = dict(arrays)
        layers: list[tuple[Direction, ...]] = []
        while any(name.endswith(f"_l{len(layers)}") for name in left):
            number = len(layers)
            suffixes = [suffix for suffix in SUFFIXES if f"weight_ih_l{number}{suffix}" in left or not suffix]
            layers.append(tuple(_direction(left, f"l{number}{suffix}") for suffix in suffixes))
        if left:
            name = min(left)
            reason = ": projections cannot be read" if name.startswith("weight_hr") else ""
            raise InterchangeError(f"{name} is no parameter of an LSTM with {len(layers)} layers{reason}")
        return cls(tuple(layers))

    @classmethod
    def of_layers(cls, layers: Sequence[LayerParameters]) -> "LstmState":
        """Give the layers of a session; the whole bias is ``bias_ih``."""
        directions = [
            Direction(entry.weights[:, : entry.input_size], entry.weights[:, entry.input_size :], entry.bias,
                      np.zeros_like(entry.bias))
            for entry in layers
        ]  # fmt: skip
        return cls(tuple((direction,) for direction in directions))

    def arrays(self) -> dict[str, np.ndarray]:
        """Give a state dict as ``torch.nn.LSTM`` has it: contiguous arrays by PyTorch's names."""
        return {
            f"{name}_l{number}{suffix}": np.ascontiguousarray(getattr(direction, name))
            for number, layer in enumerate(self.layers)
            for suffix, direction in zip(SUFFIXES, layer, strict=False)
            for name in NAMES
        }

    def to_layers(self) -> list[LayerParameters]:
        """Give the layers as a session loads them, both biases added.

        Raises :class:`InterchangeError` if the layers are bidirectional.
        """
        if self.directions > 1:
            raise InterchangeError("the layers are bidirectional; a session has layers of one direction")
        forward = [layer[0] for layer in self.layers]
        return [
            LayerParameters(np.concatenate([entry.weight_ih, entry.weight_hh], axis=1), entry.bias_ih + entry.bias_hh)
            for entry in forward
        ]


def _direction(left: dict, suffix: str) -> Direction:
    """Remove one direction's parameters from a state dict, and give them; `suffix` ends their names."""
    names = {name: f"{name}_{suffix}" for name in NAMES}
    for name in names.values():
        if name.startswith("weight") and name not in left:
            raise InterchangeError(f"{name} is missing")
        if name.startswith("weight") and (np.ndim(left[name]) != 2 or not np.size(left[name])):
            raise InterchangeError(f"{name} has shape {np.shape(left[name])}, expected two axes, neither of them empty")
    rows = np.shape(left[names["weight_ih"]])[:1]
    found = {name: left.pop(full, None) for name, full in names.items()}
    return Direction(**{n: np.zeros(rows, np.float32) if a is None else np.asarray(a) for n, a in found.items()})


def check_values(name: str, array: np.ndarray) -> None:
    """Raise :class:`InterchangeError` naming `name` if an array is not of float32, or not finite."""
    if array.dtype != np.float32:
        raise InterchangeError(f"{name} is of {array.dtype}, expected float32")
    if not np.isfinite(array).all():
        raise InterchangeError(f"{name} has a value that is not finite")


def _check(suffix: str, direction: Direction, inputs: int, hidden: int) -> None:
    rows = GATES * hidden
    shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden), "bias_ih": (rows,), "bias_hh": (rows,)}
    for name, expected in shapes.items():
        array = getattr(direction, name)
        if array.shape != expected:
            raise InterchangeError(f"{name}_{suffix} has shape {array.shape}, expected {expected}")
        check_values(f"{name}_{suffix}", array)


def reordered(rows: np.ndarray, gates: Sequence[int]) -> np.ndarray:
    """Put the gates' blocks of rows, (4H, …), into another order: block n of the result is block ``gates[n]``."""
    blocks = rows.reshape(GATES, -1, *rows.shape[1:])
    return np.ascontiguousarray(blocks[list(gates)].reshape(rows.shape))
