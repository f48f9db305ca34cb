"""Unmodified models on an engine."""

from typing import Any

from etalstm.device import Device
from etalstm.network.delta_inputs import LayerThresholds
from etalstm.nn.functional import OnEngine, Settings


def accelerate(
    engine: str | Device = "golden",
    storage: str | tuple[str, ...] | None = None,
    theta: float | tuple[float, ...] = 0.0,
    slices: int = 1,
    input_threshold: float | tuple[LayerThresholds, ...] = 0.0,
    refresh: int | None = None,
    delta_threshold: float = 0.0,
) -> OnEngine:
    """Run every ``torch.nn.LSTM`` inside a ``with`` statement on an engine.

    A backward pass may follow outside; it goes to the engine that ran the forward pass.

    Parameters
    ----------
    engine, storage, theta, slices, input_threshold, refresh, delta_threshold : see :class:`etalstm.nn.LSTM`

    Returns
    -------
    context manager

    Raises
    ------
    ValueError, TypeError
        If there is no such engine or storage, or a threshold is negative or not finite. Inside the statement, an LSTM
        raises ``ValueError`` if `storage` has policies, or `input_threshold` entries, for another number of layers.
    """
    choices: dict[str, Any] = {"storage": storage, "theta": theta, "slices": slices}
    choices |= {"input_threshold": input_threshold, "refresh": refresh}
    return OnEngine(Settings.of(engine, delta_threshold, **choices))
