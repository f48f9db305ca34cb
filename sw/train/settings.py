"""What a user chooses about a training run, with the defaults and the checks."""

from dataclasses import dataclass

import numpy as np

from etalstm.architecture import SWING, architecture
from etalstm.network import check_size
from etalstm.optimizer import check_hyperparameters
from etalstm.slices import AUTO, check_slices
from etalstm.storage import DENSE, POLICIES, Storage, check_threshold
from etalstm.train.chooser import CHOOSING


@dataclass(frozen=True)
class Settings:
    """One training run.

    Parameters
    ----------
    dataset : str
        A key of :data:`etalstm.data.DATASETS`.
    device, preset : str
        As :func:`etalstm.device.open_device` takes them.
    hidden, layers : int
        Units H and LSTM layers L.
    batch : int
        Sequences B.
    steps : int, optional
        Steps T of a batch; the data set's own if not given.
    embedding : int
        Size of a token's vector, where inputs are tokens.
    epochs, iterations : int
        The run ends at whichever comes first; no limit of iterations if not given.
    learning_rate, momentum, clip, weight_decay : float
        See :meth:`etalstm.device.Session.update`. The defaults bring digits above 0.9 within 250 iterations.
    decay : float
        An epoch's learning rate over that of the epoch before, above 0 and at most 1.
    seed : int
        Of the first weights and of the order of the examples.
    evaluation_batches : int, optional
        Batches of a split an evaluation looks at; all if not given.
    checkpoint_every : int, optional
        Iterations between checkpoints; only after epochs and at the end if not given.
    data : str, optional
        Directory of the data set's files, for those that need one.
    theta : float or tuple of six
        Local gradients below are dropped, see :class:`etalstm.storage.Storage`.
    storage : str, optional
        What cells keep, one of :data:`etalstm.storage.POLICIES`; if not given ``ms1`` where theta is above 0 or there
        is a delta_target, else ``dense``. Or ``auto`` or ``auto-fastest``: see
        :mod:`etalstm.train.chooser`.
    ms2 : float, optional
        τ of :class:`etalstm.train.significance.Significance`, at least 0 and below 1; no cell is skipped if not given.
    delta_target : float, optional
        Share of δ that :class:`etalstm.train.pruning.DeltaPruning` leaves, above 0 and below 1; all if not given. What
        cells keep must be compressed.
    architecture : str
        How the machine runs, one of :data:`etalstm.architecture.ARCHITECTURES`; of no effect on what is learnt.
    memory_budget : int, optional
        Bytes of the device's memory, see :class:`etalstm.device.TrainingShape`; all there is if not given.
    slices : int or "auto"
        Slices of the batch, the order in which gradients are added, see :mod:`etalstm.slices`; ``auto``: those of the
        checkpoint that the run goes on from, or :meth:`etalstm.device.Device.best_slices`.

    Raises
    ------
    ValueError
        Naming the value and what is expected.
    """

    dataset: str
    device: str = "golden"
    preset: str = "sim"
    hidden: int = 32
    layers: int = 1
    batch: int = 32
    steps: int | None = None
    embedding: int = 32
    epochs: int = 8
    iterations: int | None = None
    learning_rate: float = 0.2
    momentum: float = 0.9
    clip: float = 1.0
    weight_decay: float = 0.0
    seed: int = 0
    evaluation_batches: int | None = None
    checkpoint_every: int | None = None
    data: str | None = None
    theta: float | tuple[float, ...] = 0.0
    storage: str | None = None
    ms2: float | None = None
    decay: float = 1.0
    architecture: str = SWING.name
    memory_budget: int | None = None
    delta_target: float | None = None
    slices: int | str = 1

    def __post_init__(self):
        for name in ("hidden", "layers", "batch", "embedding", "epochs"):
            check_size(name, getattr(self, name))
        for name in ("steps", "iterations", "evaluation_batches", "checkpoint_every", "memory_budget"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        if self.slices != AUTO:
            check_slices(self.slices, self.batch)
        check_hyperparameters(self.learning_rate, self.momentum, self.clip, self.weight_decay)
        if not 0 < check_threshold("decay", self.decay) <= 1:
            raise ValueError(f"decay must be above 0 and at most 1, got {self.decay}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got {self.seed!r}")
        if self.ms2 is not None and not 0 <= check_threshold("ms2", self.ms2) < 1:
            raise ValueError(f"ms2 must be at least 0 and below 1, or off, got {self.ms2}")
        if self.policy not in (*POLICIES, *CHOOSING):
            raise ValueError(f"storage must be one of {', '.join((*POLICIES, *CHOOSING))}, got {self.policy!r}")
        if self.delta_target is not None:
            if not 0 < check_threshold("delta_target", self.delta_target) < 1:
                raise ValueError(f"delta_target must be above 0 and below 1, or off, got {self.delta_target}")
            if self.policy in (DENSE, *CHOOSING):
                raise ValueError(f"dense cells keep δ whole: with a delta_target storage cannot be {self.policy}")
        policy = "ms1" if self.policy in CHOOSING else self.policy
        architecture(self.architecture).check_storage(Storage(policy, self.theta))

    @property
    def policy(self) -> str:
        """What cells keep, the default filled in."""
        return self.storage or ("ms1" if np.any(self.theta) or self.delta_target is not None else DENSE)
