"""Unmodified models on an engine."""

from etalstm.device import Device
from etalstm.network import check_size
from etalstm.nn.engine import engine_of
from etalstm.nn.functional import OnEngine, Settings
from etalstm.storage import DENSE, Storage


def accelerate(
    engine: str | Device = "golden",
    storage: str | tuple[str, ...] = DENSE,
    theta: float | tuple[float, ...] = 0.0,
    slices: int = 1,
) -> OnEngine:
    """Run every ``torch.nn.LSTM`` inside a ``with`` statement on an engine.

    A backward pass may follow outside; it goes to the engine that ran the forward pass.

    Parameters
    ----------
    engine, storage, theta, slices : see :class:`etalstm.nn.LSTM`

    Returns
    -------
    context manager

    Raises
    ------
    ValueError, TypeError
        If there is no such engine or storage. Inside the statement, an LSTM raises ``ValueError`` if `storage` has
        policies for another number of layers.
    """
    return OnEngine(Settings(engine_of(engine), Storage(storage, theta), check_size("slices", slices)))
