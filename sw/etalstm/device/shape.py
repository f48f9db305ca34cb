"""What a session is made for.

Dimensions: B sequences, T steps, I inputs, H units, L layers.
"""

from dataclasses import dataclass, field

from etalstm.network.architecture import SWING, Architecture, architecture
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.shared_tokens import check_shared_tokens
from etalstm.network.slices import check_slices
from etalstm.network.storage import Storage, check_share
from etalstm.network.weight_format import FLOAT32, check_weight_format


@dataclass(frozen=True)
class TrainingShape:
    """What a session is made for: a network and the sizes of one iteration.

    Parameters
    ----------
    network : NetworkShape
    batch : int
        Sequences B.
    steps : int
        Steps T of a forward pass, at most: it may have fewer.
    masked : bool
        Sequences may be shorter than T: ``forward`` takes `lengths`.
    storage : Storage
        What the layers keep for the backward pass.
    log_share : float, optional
        Room that a device's logs of compressed streams get at first, as a share of what they need if nothing is
        dropped; from then on it follows what they were seen to need. Default: a guess. The bits do not depend on it.
    architecture : Architecture or str
        How the machine runs, see :mod:`etalstm.network.architecture`; the bits are the same for all, and a device
        without PEs ignores it.
    memory_budget : int, optional
        Bytes of a device's memory that the network may take. What cells keep beyond it goes to the host and comes back
        for the backward pass. Default: all there is. A device without a memory of its own needs none.
    slices : int
        Slices S of the batch: the order in which gradients are added, see :mod:`etalstm.network.slices`. Part of the
        training run: the bits depend on S.
    inputs : DeltaInputs
        What of x and h the layers broadcast in the forward pass. Part of the training run, too. Default: everything.
    weight_format : str
        How the passes read weights, see :mod:`etalstm.network.weight_format`. Part of the training run, too.
    shared_tokens : int, optional
        x are the vectors of tokens: what equal ones add to the first layer's gate sums is computed once, see
        :mod:`etalstm.network.shared_tokens`. Passes of a batch with more distinct tokens than this share nothing. The
        bits do not depend on it. Default: nothing is shared.
    layers_apart : bool
        A backward pass gives a layer's gradients when it goes on to the layer below, see
        :attr:`etalstm.device.hooks.SessionHooks.when_whole`. A machine has a program for each layer then, where what
        cells keep is in one segment. The bits do not depend on it. Default: all gradients come at the end.

    Raises
    ------
    ValueError
        If a size is not an integer above zero, there are more slices than sequences, `storage` or `inputs` is for
        another number of layers, `log_share` is not above 0 and at most 1, there is no such architecture or weight
        format, the architecture does not compress and the storage is not dense, or tokens are shared with delta inputs
        or on an architecture that skips no zeros. Of a cell that is no LSTM, if it is to have delta inputs, narrow
        weights, shared tokens or layers apart.
    """

    network: NetworkShape
    batch: int
    steps: int
    masked: bool = False
    storage: Storage = field(default_factory=Storage)
    log_share: float | None = None
    architecture: Architecture | str = SWING
    memory_budget: int | None = None
    slices: int = 1
    inputs: DeltaInputs = field(default_factory=DeltaInputs)
    weight_format: str = FLOAT32
    shared_tokens: int | None = None
    layers_apart: bool = False

    def __post_init__(self):
        if not isinstance(self.network, NetworkShape):
            raise ValueError(f"network must be a NetworkShape, got {type(self.network).__name__}")
        for name in ("batch", "steps"):
            object.__setattr__(self, name, check_size(name, getattr(self, name)))
        object.__setattr__(self, "slices", check_slices(self.slices, self.batch))
        if not isinstance(self.storage, Storage):
            raise ValueError(f"storage must be a Storage, got {type(self.storage).__name__}")
        self.storage.check_layers(self.network.layers)
        if not isinstance(self.inputs, DeltaInputs):
            raise ValueError(f"inputs must be DeltaInputs, got {type(self.inputs).__name__}")
        self.inputs.check_layers(self.network.layers)
        check_weight_format(self.weight_format)
        if self.memory_budget is not None:
            check_size("memory_budget", self.memory_budget)
        if self.log_share is not None:
            check_share("log_share", self.log_share)
        if not isinstance(self.architecture, Architecture):
            object.__setattr__(self, "architecture", architecture(self.architecture))
        self.architecture.check_storage(self.storage)
        self._check_cell()
        shared = check_shared_tokens(self.shared_tokens, self.inputs, self.architecture)
        object.__setattr__(self, "shared_tokens", shared)

    def _check_cell(self) -> None:
        """Refuse what only an LSTM can do yet."""
        asked = {
            "delta inputs": not self.inputs.off,
            f"weights in {self.weight_format}": self.weight_format != FLOAT32,
            "shared tokens": self.shared_tokens is not None,
            "a program for each layer (layers_apart)": self.layers_apart,
        }
        for what in (what for what, is_asked in asked.items() if is_asked):
            self.network.require_lstm(what)

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
