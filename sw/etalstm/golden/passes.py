"""What a layer's forward and backward pass leave behind, the same for the reference and the compiled trainer."""

from dataclasses import dataclass

import numpy as np

from etalstm.network.delta_inputs import LayerInputs


def active_steps(lengths: np.ndarray, steps: int) -> np.ndarray:
    """Give a boolean array (T, B): True where a step belongs to its sequence, False where it is padding."""
    return np.arange(steps)[:, None] < np.asarray(lengths)[None, :]


def skipped_steps(skipped, steps: int) -> np.ndarray:
    """Give a layer's skipped cells as a boolean array (T,); None skips none."""
    return np.zeros(steps, bool) if skipped is None else np.ascontiguousarray(skipped, bool)


def without_padding(array: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Give the N real steps of (T, B, W), t ascending, then b ascending: (N, W), contiguous."""
    return np.ascontiguousarray(array).reshape(-1, array.shape[2]) if active.all() else array[active]


def with_padding(terms: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Give (..., T, B, W) for real steps (..., N, W): undoes :func:`without_padding`; padding is +0."""
    shape = *terms.shape[:-2], *active.shape, terms.shape[-1]
    if active.all():
        return terms.reshape(shape)
    array = np.zeros(shape, terms.dtype)
    array[..., active, :] = terms
    return array


def term_numbers(active: np.ndarray) -> np.ndarray:
    """Number the real steps in the order of :func:`without_padding`: int64, (T, B), -1 where there is padding."""
    return np.where(active, active.cumsum().reshape(active.shape), 0) - 1


@dataclass(frozen=True)
class StoredPass:
    """What a layer's forward pass over T steps stores; N steps of all sequences together are no padding.

    Members
    -------
    x : array, float32, (T, B, I)              the layer's input
    h, c : arrays, float32, (T + 1, B, H)      states; index 0 is the initial one, padded steps repeat the last
    kept : array, float32, (6, N, H)           P_i, P_f, P_g, P_o, P_s, P_r as stored, in the order of
                                               :func:`without_padding`; +0 at skipped steps
    active : array, bool, (T, B)               False at padded steps
    skipped : array, bool, (T,)                True at cells that keep nothing and have no backward pass
    """

    x: np.ndarray
    h: np.ndarray
    c: np.ndarray
    kept: np.ndarray
    active: np.ndarray
    skipped: np.ndarray

    @property
    def intermediates(self) -> np.ndarray:
        """What is kept, with padding: float32, (6, T, B, H)."""
        return with_padding(self.kept, self.active)

    @property
    def y(self) -> np.ndarray:
        """The layer's output, float32, (T, B, H)."""
        return self.h[1:]


@dataclass(frozen=True)
class LayerPass(StoredPass):
    """One layer's forward pass.

    Members
    -------
    x_sent : array, float32, (T, B, I)         what each element of x was last sent as; x without delta inputs
    h_sent : array, float32, (T, B, H)         the same of the h of the step before; h[:-1] without delta inputs
    delta_inputs : LayerInputs                 what was sent when
    """

    x_sent: np.ndarray
    h_sent: np.ndarray
    delta_inputs: LayerInputs

    @property
    def sent(self) -> tuple[np.ndarray, np.ndarray]:
        """What x and h were last sent as, as it was compared with what came next."""
        return self.x_sent, self.h_sent


@dataclass(frozen=True)
class LayerBackward:
    """One layer's backward pass; rows in canonical order ``4*unit + gate``.

    Members
    -------
    dx : array, float32, (T, B, I)
    dh0, dc0 : arrays, float32, (B, H)
    weights, bias : arrays, float32, (4H, K) and (4H,)    dW and db
    broadcast : array, float32, (N, 4H)    δ of the gate sums as broadcast: pruned, in the order of
                                           :func:`without_padding`; +0 at skipped steps
    active : array, bool, (T, B)           that of the forward pass
    """

    dx: np.ndarray
    dh0: np.ndarray
    dc0: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    broadcast: np.ndarray
    active: np.ndarray

    @property
    def products(self) -> tuple["LayerBackward"]:
        """The gradients of the layer's one product: those of a declared cell may have several."""
        return (self,)

    @property
    def gates(self) -> int:
        """Rows of each unit."""
        return len(self.bias) // self.dh0.shape[1]

    @property
    def delta(self) -> np.ndarray:
        """What is broadcast, with padding: float32, (T, B, 4H)."""
        return with_padding(self.broadcast, self.active)
