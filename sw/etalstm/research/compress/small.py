"""The file of the network that a run kept: small, without masks, with PyTorch's names.

Tensors are those of the state dict of :class:`etalstm.research.compress.network.Network`: ``embedding.weight`` of a
language model, ``layers.N.weight_ih_l0`` and so on of each layer, ``output.weight`` and ``output.bias``. The metadata
say how to make the network. ``torch.nn.LSTM`` can load the tensors of a layer.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from etalstm.device import Device
from etalstm.errors import CheckpointError
from etalstm.nn.training import load_module
from etalstm.research.compress.network import Network, Sizes
from etalstm.research.compress.task import TASKS
from etalstm.train.sealed import Part, Sealed


class NetworkDescription(Part):
    """What makes the network, without its weights."""

    task: str
    dropout: float
    outputs: int
    inputs: int
    units: list[int]
    directions: int
    cell: str


@dataclass(frozen=True)
class NetworkFile(Sealed[NetworkDescription]):
    """What makes the network, and its weights."""

    KEY, FORMAT, WHAT = "etalstm-network", 1, "network of eta-lstm research compress"
    DESCRIPTION = NetworkDescription


def write_network(path: Path, network: Network, sizes: Sizes, task: str) -> None:
    """Write a network without masks; at any moment the file is the old one or the new one, whole."""
    described = {**asdict(sizes), "units": list(sizes.units)}
    description = NetworkDescription(task=task, dropout=network.dropout.p, **described)
    tensors = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    NetworkFile(description, tensors).write(path)


def load_network(path: Path | str, engine: str | Device = "golden") -> Network:
    """Load the network that a run of ``eta-lstm research compress`` kept, ``network.safetensors`` in its folder.

    Parameters
    ----------
    path : Path
    engine : str or Device
        What computes the LSTMs, as in :class:`etalstm.nn.LSTM`; the run's own does not matter.

    Returns
    -------
    LanguageModel or SpeechModel
        In evaluation mode. It can be trained further.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged, or no such network; the message names the file, and what is wrong.
    """
    path = Path(path)
    found = NetworkFile.read(path)
    described = found.description.model_dump()
    task, dropout = described.pop("task"), described.pop("dropout")
    if task not in TASKS:
        raise CheckpointError(f"{path}: task must be {' or '.join(TASKS)}, got {task!r}")
    try:
        sizes = Sizes(**described | {"units": tuple(described["units"])})
        network = TASKS[task].NETWORK.PLAIN(sizes, dropout, engine=engine)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
    load_module(path, found.tensors, network, "")
    return network.eval()
