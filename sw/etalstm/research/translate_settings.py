"""The settings of a run of ``eta-lstm research translate train``, and the file that they stand in."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from etalstm.device import DEVICES, GOLDEN
from etalstm.network.arithmetic import FLOAT32
from etalstm.network.delta_inputs import input_thresholds_text
from etalstm.network.execution import (
    ARITHMETIC_HELP,
    DELTA_BITS_HELP,
    INPUT_THRESHOLD_HELP,
    PRESET_HELP,
    Execution,
    number_or_off,
)
from etalstm.network.shape import check_size, check_sizes
from etalstm.network.storage import default_policy, read_thresholds
from etalstm.research.compress_settings import below_1, positive, seed_number
from etalstm.train.control import check_delta_target
from etalstm.train.declared import ALWAYS, REQUIRED, RunSettings, absolute, check_bounds, one_of, setting

ADDITIVE, DOT = KINDS = ("additive", "dot")
WORDS, SPACES = UNITS = ("words", "spaces")
RECOMPUTE = ("auto", "on", "off")  # the modes of etalstm.nn.recompute, which needs PyTorch
_WORD = re.compile(r"\w+(?:['’.,-]\w+)*|[^\w\s]")

RUN, DATA, MODEL, LEARN, MACHINE = "The run", "Data", "Model", "Learning", "Machine"
PANELS = (RUN, DATA, MODEL, LEARN, MACHINE)  # panels of the help, in their order


@dataclass(frozen=True)
class Tokens:
    """How a sentence becomes tokens."""

    # ``words``: words and single punctuation marks. ``spaces``: texts are tokenized already, with white space between
    unit: str = WORDS
    lower: bool = False  # the text is taken in lower case

    def __post_init__(self):
        one_of(UNITS)("tokens", self.unit)

    def of(self, text: str) -> list[str]:
        """Divide a text."""
        text = text.lower() if self.lower else text
        return text.split() if self.unit == SPACES else _WORD.findall(text)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a network, without its vocabularies."""

    hidden: int = 256  # H, even: the encoder has H/2 units in each direction
    embedding: int = 256  # E
    layers: int = 1  # L, of the encoder and of the decoder
    attention: str = ADDITIVE  # one of :data:`KINDS`
    dropout: float = 0.0  # share that is dropped of embeddings, between layers, and before the output, in training

    def __post_init__(self):
        check_sizes(hidden=self.hidden, embedding=self.embedding, layers=self.layers)
        if self.hidden % 2:
            raise ValueError(f"hidden must be even, half of it for each direction of the encoder; got {self.hidden}")
        below_1("dropout", self.dropout)
        one_of(KINDS)("attention", self.attention)


@dataclass(frozen=True)
class TranslationSettings(RunSettings):
    """The settings of a run, each with its help text; sizes and tokens are checked by their classes.

    Storage None is ``ms1`` with a θ or a `delta_target`, else ``dense``. The threshold of a `delta_target` follows it:
    see :mod:`etalstm.train.control`. Θ is kept as :func:`etalstm.network.delta_inputs.input_thresholds_text` writes it.
    Raises ``ValueError`` if a value cannot be; the message names both.
    """

    COMMAND: ClassVar[str] = "eta-lstm research translate train"

    data: str = setting(
        REQUIRED, "Directory of train.SOURCE, train.TARGET and so on, or SOURCE-train.txt; or .gz", DATA,
        typed=Path, read=absolute, may_differ=ALWAYS,
    )  # fmt: skip
    source: str = setting(REQUIRED, "Language that is read, as its files are called", DATA)
    target: str = setting(REQUIRED, "Language that is written, as its files are called", DATA)
    engine: str = setting(GOLDEN, f"What computes the LSTMs: {', '.join(DEVICES)}", MACHINE, may_differ=ALWAYS)
    preset: str | None = setting(None, f"{PRESET_HELP} [default: sim]", MACHINE, may_differ=ALWAYS)
    hidden: int = setting(Sizes.hidden, "Units of a layer; the encoder has half of them in each direction", MODEL)
    embedding: int = setting(Sizes.embedding, "Size of a token's vector", MODEL)
    layers: int = setting(Sizes.layers, "LSTM layers of the encoder, and of the decoder", MODEL)
    attention: str = setting(Sizes.attention, "additive or dot", MODEL)
    dropout: float = setting(Sizes.dropout, "Share dropped in training", MODEL)
    storage: str | None = setting(
        None, "dense, ms1, ms1-bf16 [default: ms1 with a theta or delta target, else dense]", MACHINE
    )
    theta: float | tuple[float, ...] = setting(
        0.0, "Drop local gradients below: one number or six", MACHINE, typed=str,
        read=lambda _, text: read_thresholds(text), shown="0",
    )  # fmt: skip
    slices: int = setting(1, "Slices of the batch, whose gradients are added as a tree", MACHINE, check_size)
    delta_target: float | None = setting(
        None, "Leave this share of the gates' gradients, or off", MACHINE, typed=str, read=number_or_off, shown="off"
    )
    input_threshold: str = setting("0", INPUT_THRESHOLD_HELP, MACHINE)
    arithmetic: str = setting(FLOAT32.name, ARITHMETIC_HELP, MACHINE)
    delta_bits: int | None = setting(None, DELTA_BITS_HELP, MACHINE)
    tokens: str = setting(WORDS, "words, or spaces: texts that white space divides already", DATA)
    lower: bool = setting(False, "Texts in lower case, and BLEU without regard to case", DATA)
    least_count: int = setting(2, "The vocabulary takes tokens that the training has so often", DATA, check_size)
    longest: int = setting(50, "Most tokens of a training pair, and of a translation", DATA, check_size)
    sentences: int | None = setting(None, "The first so many pairs of each split [default: all]", DATA, check_size)
    batch: int = setting(64, "Pairs of an iteration", LEARN, check_size)
    epochs: int = setting(6, "Passes over the training pairs", RUN, check_size, may_differ=ALWAYS)
    seed: int = setting(0, "Of first weights, order and dropout", RUN, seed_number)
    learning_rate: float = setting(
        0.002, "Of Adam, at the start; it falls to 0", LEARN, positive, option="--lr", may_differ=ALWAYS
    )
    clip: float = setting(1.0, "Largest norm of the gradient", LEARN, positive, may_differ=ALWAYS)
    recompute: str = setting(
        "auto", "Compute the attention's maps again instead of keeping them: auto, on, off", MACHINE,
        one_of(RECOMPUTE), may_differ=ALWAYS,
    )  # fmt: skip

    def __post_init__(self):
        check_bounds(self)
        policy = self.storage
        if policy is None:
            policy = default_policy(self.theta, prunes=self.delta_target is not None)
            object.__setattr__(self, "storage", policy)
        if self.delta_target is not None:
            check_delta_target(self.delta_target, policy)
        execution = self.execution
        execution.check_layers(self.layers)
        object.__setattr__(self, "input_threshold", input_thresholds_text(execution.delta_inputs.thresholds))
        _ = self.sizes, self.reading  # they check their values

    @property
    def execution(self) -> Execution:
        """How the network is computed."""
        return Execution.read(
            theta=self.theta, storage=self.storage, slices=self.slices, input_threshold=str(self.input_threshold),
            arithmetic=self.arithmetic, delta_bits=self.delta_bits,
        )  # fmt: skip

    @property
    def sizes(self) -> Sizes:
        """The sizes of the network."""
        return Sizes(self.hidden, self.embedding, self.layers, self.attention, self.dropout)

    @property
    def reading(self) -> Tokens:
        """How sentences become tokens."""
        return Tokens(self.tokens, self.lower)
