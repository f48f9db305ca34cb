"""A trained network: evaluate, predict, generate, export. Any batch size and length, on any device."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from safetensors.numpy import save
from threadpoolctl import threadpool_limits

from etalstm.data import DataSet, Encoding
from etalstm.data.buckets import read_buckets
from etalstm.data.dataset import CLASSIFY, LANGUAGE, REGRESS
from etalstm.data.sequences import finite_float32
from etalstm.device import Device, Session, TrainingShape, open_device
from etalstm.errors import CheckpointError, DataError
from etalstm.formats.interchange.onnx_write import Network, write_onnx
from etalstm.formats.interchange.state import LstmState
from etalstm.host.durable import write_whole
from etalstm.network.architecture import SWING
from etalstm.network.shape import LayerParameters, NetworkShape, check_size
from etalstm.network.storage import Storage
from etalstm.train.checkpoint import Checkpoint
from etalstm.train.folder import RunFolder
from etalstm.train.model import BIAS, EMBEDDING, HostModel, evaluate, forward
from etalstm.train.settings import Settings
from etalstm.train.state import host_of, layers_of, restore_exponents


def pytorch_tensors(layers: list[LayerParameters], model: HostModel) -> dict[str, np.ndarray]:
    """Give all parameters by PyTorch's names, float32."""
    tensors = {"embedding.weight": model.parameters[EMBEDDING]} if model.identity.tokens else {}
    tensors |= {f"lstm.{name}": array for name, array in LstmState.of_layers(layers).arrays().items()}
    tensors |= {"linear.weight": model.output_weights, "linear.bias": model.parameters[BIAS]}
    return {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def write_safetensors(path: Path, layers: list[LayerParameters], model: HostModel) -> None:
    """Write all parameters by PyTorch's names into a safetensors file; :class:`OSError` if that cannot be.

    ``embedding.weight`` (tokens, E); ``lstm.weight_ih_l0`` (4H, I), ``lstm.weight_hh_l0`` (4H, H), ``lstm.bias_ih_l0``
    and ``lstm.bias_hh_l0`` (4H,), and so on for each layer; ``linear.weight`` (C, H) and ``linear.bias`` (C,). The two
    biases of a layer are one in this program. It is exported as the first; the second is zero.
    """
    write_whole(path, save(pytorch_tensors(layers, model)))


def write_network(path: Path, layers: list[LayerParameters], model: HostModel) -> None:
    """Write the whole network into an ONNX file: :func:`etalstm.formats.interchange.onnx_write.write_onnx`."""
    embedding = model.parameters[EMBEDDING] if model.identity.tokens else None
    output = model.output_weights, model.parameters[BIAS]
    write_onnx(path, Network(LstmState.of_layers(layers), embedding, output, model.identity.per_step))


FORMATS = {".safetensors": write_safetensors, ".onnx": write_network}  # by a file's ending


BATCH = 32  # sequences that are predicted at once
SESSIONS = 8  # shapes for which a device is planned at once
LAST, BEST = CHECKPOINTS = ("last", "best")


class TrainedModel:
    """The trained network of a checkpoint. Usable as a context manager that closes its device.

    `path` is the checkpoint's, `settings` and `encoding` are the run's. The device is open; :meth:`close` closes it.
    Raises :class:`CheckpointError` if the checkpoint is damaged, or its sizes or its encoding are not the run's.

    Members
    -------
    identity : Identity                 sizes and task of the network
    layers : list of LayerParameters    of the LSTM
    model : HostModel                   embedding and output layer
    """

    def __init__(self, path: Path, settings: Settings, encoding: Encoding, device: Device):
        saved = Checkpoint.read(path)
        self.settings, self.encoding, self.identity = settings, encoding, saved.description.model
        if encoding.digest != self.identity.encoding:
            raise CheckpointError(f"{path}: of another run: its tokens and labels are not those of the folder")
        identity = self.identity
        self.network = NetworkShape(identity.input_size, identity.hidden_size, identity.layers, identity.cell)
        self.model = HostModel(identity, seed=0)
        try:
            self.layers = layers_of(saved.tensors, self.network, "weights")
            found = host_of(saved.tensors, self.model, "weights")
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"{path}: not the tensors of its network: {error}") from error
        for name, array in found.items():
            if array.shape != (expected := self.model.parameters[name].shape):
                raise CheckpointError(f"{path}: tensor host.{name} has shape {array.shape}, expected {expected}")
        self.model.parameters = found
        delta_inputs = settings.delta_inputs_at(saved.description.position.input_threshold)
        chosen = settings.execution(Storage())
        self._execution = replace(chosen, slices=1, delta_inputs=delta_inputs, architecture=SWING)  # nothing goes back
        self._exponents = saved.description.position.exponents
        self._device = device
        self._session = lru_cache(SESSIONS)(self._create)

    def _create(self, batch: int, steps: int, masked: bool) -> Session:
        session = self._device.create(TrainingShape(self.network, batch, steps, self._execution, masked=masked))
        session.load(self.layers)
        if self._exponents:
            restore_exponents(session.exponents, self._exponents)
        return session

    def evaluate(
        self, data: DataSet, split: str = "test", batch: int | None = None, steps: int | None = None
    ) -> dict[str, float]:
        """Give the loss on a split, and the score of the task: accuracy, perplexity or rmse.

        The split is one of :data:`etalstm.data.SPLITS`. Batch and steps are those of the run if not given; its length
        buckets are used if there are no steps. Raises ``ValueError`` if the network was trained for other data, there
        is no such split, or a size is not above 0.
        """
        identity = self.identity
        found: dict[str, str | int] = {"task": data.task, "outputs": data.classes, "encoding": data.encoding.digest}
        if data.input_size:
            found |= {"input_size": data.input_size, "tokens": 0}
        for name, theirs in found.items():
            if (ours := getattr(identity, name)) != theirs:
                raise ValueError(f"the network was trained for other data: its {name} is {ours}, theirs is {theirs}")
        if not data.input_size and data.tokens > identity.tokens:
            raise ValueError(f"the network knows {identity.tokens} tokens, the data have {data.tokens}")
        if steps is None:
            data = data.in_buckets(read_buckets(self.settings.buckets), batch or self.settings.batch)
        sizes = self._sizes(data, batch, steps)
        batches = data.epoch(split, *sizes)
        masked = not data.stateful  # a sequence may have fewer steps than the batch, even if all have as many
        with threadpool_limits(1):
            evaluation = evaluate(self._session(*sizes, masked), self.model, batches, data)
        return {"loss": evaluation.loss.mean} | evaluation.scores(self.identity.task)

    def _sizes(self, data: DataSet, batch: int | None, steps: int | None) -> tuple[int, int]:
        """Give the sizes of a batch, those of the run where none is given."""
        batch = self.settings.batch if batch is None else batch
        steps = (self.settings.steps or data.steps) if steps is None else steps
        return check_size("batch", batch), check_size("steps", steps)

    def predict(self, inputs: Sequence) -> list:
        """Give an answer for each sequence: a text; tokens, int64, (T,); or vectors, float32, (T, I), of any length.

        The answer to a sequence is its class (``classify``), its classes step by step (``tag``), its numbers, float32,
        (C,) (``regress``), or the most probable next token's text (``language``). Raises :class:`DataError` if a
        sequence is empty, of another size, or has a token that is not known; the message gives its number.
        """
        arrays = [self._array(number, entry) for number, entry in enumerate(inputs)]
        answers = []
        for first in range(0, len(arrays), BATCH):
            answers += self._answers(arrays[first : first + BATCH])
        return answers

    def _array(self, number: int, entry: str | ArrayLike) -> np.ndarray:
        """Give one sequence as an array, tokens (T,) or vectors (T, I)."""
        identity = self.identity
        if isinstance(entry, str):
            if not identity.tokens:
                raise DataError(f"sequence {number}: the network takes vectors, got a text")
            entry = self.encoding.encode(entry)
        array = np.asarray(entry)
        expected = () if identity.tokens else (identity.input_size,)
        if array.ndim != 1 + len(expected) or array.shape[1:] != expected or not len(array):
            wanted = f"vectors of {identity.input_size} numbers" if expected else "tokens"
            raise DataError(f"sequence {number}: must be {wanted}, at least one, got an array of shape {array.shape}")
        return self._tokens(number, array) if identity.tokens else finite_float32(number, "x", array)

    def _tokens(self, number: int, array: np.ndarray) -> np.ndarray:
        """Give tokens as int64, (T,), each of them known."""
        if not np.issubdtype(array.dtype, np.integer):
            raise DataError(f"sequence {number}: tokens must be integers, got {array.dtype}")
        unknown = array[(array < 0) | (array >= self.identity.tokens)]
        if unknown.size:
            raise DataError(f"sequence {number}: tokens must be 0 to {self.identity.tokens - 1}, got {unknown[0]}")
        return array.astype(np.int64)

    def _answers(self, arrays: list[np.ndarray]) -> list:
        lengths = np.array([len(array) for array in arrays])
        x = np.zeros((lengths.max(), len(arrays), *arrays[0].shape[1:]), arrays[0].dtype)
        for b, array in enumerate(arrays):
            x[: len(array), b] = array
        with threadpool_limits(1):
            y = forward(self._session(len(arrays), int(lengths.max()), True), self.model, x, lengths).y
            outputs = self.model.outputs(y, lengths)
        return [self._answer(outputs, b, length) for b, length in enumerate(lengths)]

    def _answer(self, outputs: np.ndarray, b: int, length: int) -> np.ndarray | str | list[str]:
        if self.identity.task == REGRESS:
            return outputs[b]
        if self.identity.task == CLASSIFY:
            return self.encoding.name_of(int(outputs[b].argmax()))
        ranked_first = outputs[:length, b].argmax(axis=1)
        if self.identity.task == LANGUAGE:
            return self.encoding.decode(ranked_first[-1:])
        return [self.encoding.name_of(int(number)) for number in ranked_first]

    def generate(self, prompt: str, length: int, temperature: float = 1.0, seed: int = 0) -> str:
        """Continue a text: give the `length` tokens that follow the prompt. The unknown token is never drawn.

        The prompt has at least one token. The `temperature` divides the logits before a token is drawn; 0 takes the
        most probable one. Raises ``ValueError`` if the network models no language, or a number is out of its range;
        :class:`DataError` if the prompt is empty or has a token that is not known.
        """
        if self.identity.task != LANGUAGE:
            raise ValueError(f"only a network of the task language generates, this one's is {self.identity.task}")
        check_size("length", length)
        if seed < 0:
            raise ValueError(f"seed must be at least 0, got {seed}")
        if not 0 <= temperature < np.inf:
            raise ValueError(f"temperature must be finite and at least 0, got {temperature}")
        generator = np.random.Generator(np.random.PCG64(seed))
        tokens, h, c = self._array(0, prompt), None, None
        drawn = []
        with threadpool_limits(1):
            for _ in range(length):
                lengths = np.array([len(tokens)])
                outputs = forward(self._session(1, len(tokens), False), self.model, tokens[:, None], lengths, h, c)
                logits = self.model.outputs(outputs.y, lengths)[-1, 0]
                if self.encoding.unknown is not None:
                    logits[self.encoding.unknown] = -np.inf
                drawn.append(draw(logits, temperature, generator))
                tokens, h, c = np.array(drawn[-1:]), outputs.h, outputs.c
        return self.encoding.decode(drawn)

    def export(self, path: Path | str) -> None:
        """Write the parameters, in the format that the file's ending says: one of :data:`FORMATS`.

        Raises ``ValueError`` if there is no such format; ``OSError`` if the file cannot be written.
        """
        path = Path(path)
        if path.suffix not in FORMATS:
            raise ValueError(f"{path}: the ending must be one of {', '.join(FORMATS)}, got {path.suffix!r}")
        self.network.require_lstm(f"export as {path.suffix}")
        FORMATS[path.suffix](path, self.layers, self.model)

    def close(self) -> None:
        """Close the device."""
        self._device.close()

    def __enter__(self) -> "TrainedModel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def draw(logits: np.ndarray, temperature: float, generator: np.random.Generator) -> int:
    """Draw the number of a token from logits, float32, (C,)."""
    if not temperature:
        return int(logits.argmax())
    weights = np.exp((logits - logits.max()).astype(np.float64) / temperature)
    return int(np.searchsorted(np.cumsum(weights) / weights.sum(), generator.random(), side="right"))


def load(
    run: Path | str, device: str | Device = "golden", preset: str | None = None, checkpoint: str | None = None
) -> TrainedModel:
    """Load what a run has trained, from the folder of ``eta-lstm train``.

    `device`: as :func:`etalstm.device.open_device` takes it, whatever the run's own was. `preset`: the accelerator's
    configuration; default: the run's. `checkpoint`: ``best``, the one with the lowest validation loss, or ``last``;
    default: the best, if there is one.

    Raises :class:`RunError` if the folder has no run, or its settings or its encoding are malformed;
    :class:`CheckpointError` if there is no such checkpoint, or it is damaged; :class:`DeviceError` or ``ValueError`` if
    there is no such device, or it cannot be opened.
    """
    folder = RunFolder(run)
    settings, encoding = folder.read_settings(), folder.read_encoding()
    if checkpoint not in (None, *CHECKPOINTS):
        raise ValueError(f"checkpoint must be one of {', '.join(CHECKPOINTS)}, got {checkpoint!r}")
    best = folder.best.exists() if checkpoint is None else checkpoint == BEST
    if isinstance(device, str):
        device = open_device(device, preset or settings.preset)
    return TrainedModel(folder.best if best else folder.checkpoint, settings, encoding, device)
