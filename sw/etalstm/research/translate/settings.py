"""The settings of a run, and the file that they stand in."""

from dataclasses import dataclass
from typing import ClassVar

from etalstm.network.delta_inputs import input_thresholds_text
from etalstm.network.execution import Execution
from etalstm.network.shape import check_size
from etalstm.network.storage import default_policy
from etalstm.nn.recompute import check_mode
from etalstm.research.translate.network import Sizes
from etalstm.research.translate.vocabulary import WORDS, Tokens
from etalstm.train.control import check_delta_target
from etalstm.train.declared import RunSettings


@dataclass(frozen=True)
class TranslationSettings(RunSettings):
    """What a run is given.

    Members
    -------
    data : str                     directory of the files
    source, target : str           how the languages' files are called
    engine : str, preset : str or None
    hidden, embedding, layers, attention, dropout
        See :class:`etalstm.research.translate.network.Sizes`.
    storage : str or None          None: ``ms1`` with a θ or a `delta_target`, else ``dense``
    theta, slices                  see :class:`etalstm.nn.LSTM`
    delta_target : float or None   share of δ that is left; its threshold follows, see :mod:`etalstm.train.control`
    input_threshold : str          Θ of delta inputs, as :func:`etalstm.network.delta_inputs.read_input_thresholds`
    reads it;
                                   kept as that module writes it
    tokens, lower                  see :class:`etalstm.research.translate.vocabulary.Tokens`
    least_count : int              how often the training has a token that the vocabulary takes
    longest : int                  tokens; longer training pairs are left out, translations are cut
    sentences : int or None        the first so many pairs of each split; all if None
    batch, epochs, seed : int
    learning_rate : float          of Adam, at the start; it falls to 0 in a straight line
    clip : float                   largest norm of the gradient
    recompute : str                whether the attention's maps are computed again: ``auto``, ``on``, ``off``

    Raises
    ------
    ValueError
        If a value cannot be; the message names both.
    """

    COMMAND: ClassVar[str] = "eta-lstm research translate train"

    data: str
    source: str
    target: str
    engine: str = "golden"
    preset: str | None = None
    hidden: int = Sizes.hidden
    embedding: int = Sizes.embedding
    layers: int = Sizes.layers
    attention: str = Sizes.attention
    dropout: float = Sizes.dropout
    storage: str | None = None
    theta: float | tuple[float, ...] = 0.0
    slices: int = 1
    delta_target: float | None = None
    input_threshold: str = "0"
    tokens: str = WORDS
    lower: bool = False
    least_count: int = 2
    longest: int = 50
    sentences: int | None = None
    batch: int = 64
    epochs: int = 6
    seed: int = 0
    learning_rate: float = 0.002
    clip: float = 1.0
    recompute: str = "auto"

    @classmethod
    def may_differ(cls) -> tuple[str, ...]:
        """Name the settings that may differ where a run goes on."""
        return "data", "engine", "preset", "epochs", "learning_rate", "clip", "recompute"

    def __post_init__(self):
        for name in ("least_count", "longest", "batch", "epochs", "slices"):
            check_size(name, getattr(self, name))
        if self.sentences is not None:
            check_size("sentences", self.sentences)
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed must be at least 0 and below 2^63, got {self.seed}")
        for name in ("learning_rate", "clip"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be above 0 and finite, got {getattr(self, name)!r}")
        policy = self.storage
        if policy is None:
            policy = default_policy(self.theta, prunes=self.delta_target is not None)
            object.__setattr__(self, "storage", policy)
        if self.delta_target is not None:
            check_delta_target(self.delta_target, policy)
        execution = self.execution
        execution.check_layers(self.layers)
        object.__setattr__(self, "input_threshold", input_thresholds_text(execution.delta_inputs.thresholds))
        check_mode(self.recompute)
        _ = self.sizes, self.reading

    @property
    def execution(self) -> Execution:
        """How the network is computed."""
        return Execution.read(
            theta=self.theta, storage=self.storage, slices=self.slices, input_threshold=str(self.input_threshold)
        )

    @property
    def sizes(self) -> Sizes:
        """Those of the network."""
        return Sizes(self.hidden, self.embedding, self.layers, self.attention, self.dropout)

    @property
    def reading(self) -> Tokens:
        """How sentences become tokens."""
        return Tokens(self.tokens, self.lower)
