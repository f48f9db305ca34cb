"""A learner's state as the tensors of a checkpoint, and back."""

from collections.abc import Collection
from itertools import chain, islice
from pathlib import Path

from etalstm.data import DataSet
from etalstm.device import Device
from etalstm.errors import CheckpointError
from etalstm.network.arithmetic import FLOAT32
from etalstm.network.exponents import Exponents
from etalstm.network.shape import LayerParameters, NetworkShape
from etalstm.train.checkpoint import Checkpoint, ExponentState, Origin
from etalstm.train.declared import may_differ
from etalstm.train.learner import Learner
from etalstm.train.model import HostModel
from etalstm.train.sealed import check_same
from etalstm.train.settings import Settings


def tensors_of(learner: Learner, within_epoch: bool) -> dict:
    """Give all arrays of a learner; h and c only within an epoch, as each epoch begins without."""
    tensors = {"state.h": learner.h, "state.c": learner.c} if within_epoch else {}
    tensors |= {f"significance.{name}": array for name, array in learner.significance.arrays.items()}
    optimizer, session = learner.optimizer, learner.session
    for kind, layers in ({"weights": session.parameters()} | optimizer.lstm_state(session)).items():
        for names, matrix in zip(_names(learner.network, kind), layers, strict=True):
            tensors |= zip(names, (matrix.weights, matrix.bias), strict=True)
    for kind, arrays in ({"weights": learner.model.parameters} | optimizer.host_state).items():
        tensors |= {f"host.{name}.{kind}": array for name, array in arrays.items()}
    return tensors


def _names(network: NetworkShape, kind: str) -> list[tuple[str, str]]:
    """Name the tensors of each matrix of a network: weights and bias."""
    return [(f"{network.cell}.{n}.{kind}", f"{network.cell}.{n}.bias.{kind}") for n in range(len(network.matrices))]


def layers_of(tensors: dict, network: NetworkShape, kind: str) -> list[LayerParameters]:
    """Give a network's parameters, or their optimizer state, from a checkpoint's tensors."""
    return [
        LayerParameters(tensors[weights], tensors[bias], matrix.gates)
        for (weights, bias), matrix in zip(_names(network, kind), network.matrices, strict=True)
    ]


def host_of(tensors: dict, model: HostModel, kind: str) -> dict:
    """Give the host's parameters, or their optimizer state, from a checkpoint's tensors."""
    return {name: tensors[f"host.{name}.{kind}"] for name in model.parameters}


def _shapes(learner: Learner, origin: Origin, within_epoch: bool) -> dict[str, tuple[int, ...]]:
    network = learner.network
    state = (network.layers, origin.batch, network.hidden_size)
    shapes: dict[str, tuple[int, ...]] = {"state.h": state, "state.c": state} if within_epoch else {}
    shapes |= {f"significance.{name}": array.shape for name, array in learner.significance.arrays.items()}
    for kind in ("weights", *learner.optimizer.kinds):
        for (weights, bias), matrix in zip(_names(network, kind), network.matrices, strict=True):
            shapes |= {weights: (matrix.rows, matrix.columns), bias: (matrix.rows,)}
        shapes |= {f"host.{name}.{kind}": array.shape for name, array in learner.model.parameters.items()}
    return shapes


def check_run(path: Path, learner: Learner, saved: Checkpoint, exempt: Collection[str] = ()) -> None:
    """Raise :class:`CheckpointError` unless a checkpoint is of the learner's run.

    The fields `exempt` of its origin are not compared, nor settings that are declared as ones that may differ.
    """
    found, position = saved.description.run, saved.description.position
    check_same(path, dict(saved.description.model), dict(learner.identity))
    allowed = {*exempt, *may_differ(Settings, between_epochs=not position.batch)}
    if FLOAT32.name in (found.arithmetic, learner.origin.arithmetic) and found.arithmetic != learner.origin.arithmetic:
        allowed.add("slices")  # of which integers know nothing
    check_same(path, dict(found), dict(learner.origin), allowed)
    layers = learner.network.layers
    if not len(position.chooser.dense_for) == len(position.chooser.words) == len(position.chooser.deltas) == layers:
        raise CheckpointError(f"{path}: position.chooser must be of {layers} layers, got {position.chooser}")
    saved.check_shapes(path, _shapes(learner, found, position.batch > 0))


def restore(path: Path, learner: Learner, saved: Checkpoint, exempt: Collection[str] = ()) -> None:
    """Set a learner to the state of a checkpoint; the path is for messages.

    The fields `exempt` of the origin may differ if the network is measured in another way, and no run is resumed.
    Raises :class:`CheckpointError` if the checkpoint is of another run.
    """
    check_run(path, learner, saved, exempt)
    tensors, position, network = saved.tensors, saved.description.position, learner.network
    learner.iteration, optimizer, model = position.iteration, learner.optimizer, learner.model
    learner.chooser.state = position.chooser.model_dump()
    if learner.pruning and position.delta_threshold is not None:
        learner.pruning.threshold = position.delta_threshold
    if learner.rule:
        learner.rule.state = position.rule
    if learner.settings.input_target is not None:
        learner.control_sending(position.input_threshold)
    learner.significance.arrays = {name: tensors[f"significance.{name}"] for name in learner.significance.arrays}
    model.parameters |= host_of(tensors, model, "weights")
    optimizer.host_state = {kind: host_of(tensors, model, kind) for kind in optimizer.kinds}
    learner.apply_storage()
    state = {kind: layers_of(tensors, network, kind) for kind in optimizer.kinds}
    optimizer.load(learner.session, layers_of(tensors, network, "weights"), state)
    if position.exponents and saved.description.run.arithmetic == learner.origin.arithmetic:
        restore_exponents(learner.session.exponents, position.exponents)
    if position.batch and saved.description.run.batch == learner.origin.batch:  # else no epoch goes on
        learner.h, learner.c = tensors["state.h"], tensors["state.c"]


def restore_exponents(sessions: list[Exponents], found: ExponentState) -> None:
    """Set the exponents of sessions to those of a checkpoint: one of all layers, or with dropout one of each."""
    delta, operands = chain.from_iterable(found.delta), chain.from_iterable(found.operands)
    for exponents in sessions:
        count = len(exponents.delta)
        exponents.state = list(islice(delta, count)), list(islice(operands, count))


def open_learner(
    settings: Settings, data: DataSet, device: Device, path: Path | None = None, exempt: Collection[str] = (),
    steps: int | None = None,
) -> tuple[Learner, Checkpoint | None]:  # fmt: skip
    """Make a learner, in the state of the checkpoint at `path` if given; give learner and checkpoint.

    `exempt` is as in :func:`restore`. `steps` are those of the learner, if the checkpoint's run has more.
    """
    if path is None:
        return Learner(settings, data, device), None
    saved = Checkpoint.read(path).up_to(steps) if steps else Checkpoint.read(path)
    learner = Learner(settings, data, device, saved)
    restore(path, learner, saved, exempt)
    return learner, saved
