"""What a session is made for.

Dimensions: B sequences, T steps, I inputs, H units, L layers.
"""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.storage import check_share


@dataclass(frozen=True)
class TrainingShape:
    """What a session is made for: a network, the sizes of one iteration, and how it is computed.

    Parameters
    ----------
    network : NetworkShape
    batch : int
        Sequences B.
    steps : int
        Steps T of a forward pass, at most: it may have fewer.
    execution : Execution
        How the network is computed.
    masked : bool
        Sequences may be shorter than T: ``forward`` takes `lengths`.
    log_share : float, optional
        Room that a device's logs of compressed streams get at first, as a share of what they need if nothing is
        dropped; from then on it follows what they were seen to need. Default: a guess. The bits do not depend on it.
    memory_budget : int, optional
        Bytes of a device's memory that the network may take. What cells keep beyond it goes to the host and comes back
        for the backward pass. Default: all there is. A device without a memory of its own needs none.
    layers_apart : bool
        A backward pass gives a layer's gradients when it goes on to the layer below, see
        :attr:`etalstm.device.hooks.SessionHooks.when_whole`. A machine has a program for each layer then, where what
        cells keep is in one segment. The bits do not depend on it. Default: all gradients come at the end.

    Raises
    ------
    ValueError
        If a size is not an integer above zero, `log_share` is not above 0 and at most 1, or
        :meth:`etalstm.network.execution.Execution.check` refuses the execution. Of a cell that is no LSTM, if it is to
        have layers apart.
    """

    network: NetworkShape
    batch: int
    steps: int
    execution: Execution = field(default_factory=Execution)
    _: KW_ONLY
    masked: bool = False
    log_share: float | None = None
    memory_budget: int | None = None
    layers_apart: bool = False

    def __post_init__(self):
        for name, kind in (("network", NetworkShape), ("execution", Execution)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} must be of type {kind.__name__}, got {type(getattr(self, name)).__name__}")
        for name in ("batch", "steps"):
            object.__setattr__(self, name, check_size(name, getattr(self, name)))
        self.execution.check(self.network, self.batch)
        if self.memory_budget is not None:
            check_size("memory_budget", self.memory_budget)
        if self.log_share is not None:
            check_share("log_share", self.log_share)
        if self.layers_apart:
            self.network.require_lstm("a program for each layer (layers_apart)")

    def with_execution(self, **choices: Any) -> "TrainingShape":
        """Give the same with other choices of its execution: members of it by name."""
        return replace(self, execution=replace(self.execution, **choices))

    @property
    def x_shape(self) -> tuple[int, int, int]:
        """(T, B, I), also of dx."""
        return self.steps, self.batch, self.network.input_size

    @property
    def y_shape(self) -> tuple[int, int, int]:
        """(T, B, H), also of dy."""
        return self.steps, self.batch, self.network.hidden_size

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """(L, B, H), of h, c and their gradients."""
        return self.network.layers, self.batch, self.network.hidden_size
