"""The options of commands that take any network: ``plan``, ``model``, ``bench iteration``, ``verify compare``."""

from dataclasses import dataclass

from etalstm.network.architecture import SWING
from etalstm.network.arithmetic import FLOAT32 as IN_FLOAT32
from etalstm.network.cells.lstm import LSTM
from etalstm.network.execution import (
    ARCHITECTURE_HELP,
    ARITHMETIC_HELP,
    CELL_HELP,
    DELTA_BITS_HELP,
    FLOAT32,
    INPUT_THRESHOLD_HELP,
    PRESET_HELP,
    REFRESH_HELP,
    SHARED_TOKENS_HELP,
    SLICES_HELP,
    WEIGHT_FORMAT_HELP,
    Execution,
    slices_or_auto,
)
from etalstm.network.shape import NetworkShape
from etalstm.network.shared_tokens import OFF
from etalstm.network.slices import AUTO
from etalstm.train.declared import setting

NETWORK, COMPUTED = "Network and batch", "How they are computed"
PANELS = (NETWORK, COMPUTED)  # panels of the help, in their order
# Names of settings that several commands take as a whole.
SIZES = "inputs hidden layers cell batch steps"
CHOICES = "weight_format arithmetic delta_bits shared_tokens input_threshold refresh"


@dataclass(frozen=True)
class Work:
    """A network with a batch, and how they are computed on a machine. A command takes some of these, as its options."""

    inputs: int = setting(8, "Inputs", NETWORK, option="--input")
    hidden: int = setting(32, "Units of a layer", NETWORK)
    layers: int = setting(1, "Layers", NETWORK)
    cell: str = setting(LSTM.name, CELL_HELP, NETWORK)
    batch: int = setting(32, "Sequences", NETWORK)
    steps: int = setting(8, "Steps", NETWORK)
    lengths: bool = setting(
        False, "Sequences of unequal lengths, none longer than the steps", NETWORK, option="--unequal-lengths"
    )
    preset: str = setting("sim", PRESET_HELP, COMPUTED)
    architecture: str = setting(SWING.name, ARCHITECTURE_HELP, COMPUTED)
    slices: str = setting("1", f"{SLICES_HELP}; {AUTO}: as many as the machine uses best", COMPUTED)
    weight_format: str = setting(FLOAT32, WEIGHT_FORMAT_HELP, COMPUTED)
    arithmetic: str = setting(IN_FLOAT32.name, ARITHMETIC_HELP, COMPUTED)
    delta_bits: int | None = setting(None, DELTA_BITS_HELP, COMPUTED)
    shared_tokens: str = setting(OFF, SHARED_TOKENS_HELP, COMPUTED)
    input_threshold: str = setting("0", INPUT_THRESHOLD_HELP, COMPUTED)
    refresh: int | None = setting(None, REFRESH_HELP, COMPUTED)
    memory: int | None = setting(None, "Memory of the device in bytes; fails if it is too small", COMPUTED)
    memory_budget: int | None = setting(
        None, "Bytes of the device's memory; intermediates beyond it go to the host and back", COMPUTED
    )

    @property
    def network(self) -> NetworkShape:
        """The network's shape; ``ValueError`` if a size cannot be."""
        return NetworkShape(self.inputs, self.hidden, self.layers, self.cell)

    @property
    def sizes(self) -> tuple[NetworkShape, int, int]:
        """The network, the sequences and the steps, as plans and training shapes take them; raises as `network`."""
        return self.network, self.batch, self.steps

    @property
    def choose_slices(self) -> bool:
        """True if the machine is to choose the number of slices."""
        return slices_or_auto(self.slices) == AUTO

    def execution(self, storage: str | None = None, theta: str = "0") -> Execution:
        """Give how the network is computed; raises as :meth:`etalstm.network.execution.Execution.read`.

        Slices that the machine is still to choose count as one.
        """
        number = slices_or_auto(self.slices)
        return Execution.read(
            theta=theta, storage=storage, slices=number if isinstance(number, int) else 1,
            input_threshold=self.input_threshold, refresh=self.refresh, weight_format=self.weight_format,
            shared_tokens=self.shared_tokens, architecture=self.architecture, arithmetic=self.arithmetic,
            delta_bits=self.delta_bits,
        )  # fmt: skip
