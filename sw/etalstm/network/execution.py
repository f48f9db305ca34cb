"""How a run computes its network: storage, slices, delta inputs, weight format, shared tokens, architecture."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any, TypeVar

from etalstm.network.architecture import ARCHITECTURES, SWING, Architecture, Division
from etalstm.network.architecture import architecture as named_architecture
from etalstm.network.arithmetic import ARITHMETICS, DELTA_BITS, Arithmetic, arithmetic_named
from etalstm.network.arithmetic import FLOAT32 as IN_FLOAT32
from etalstm.network.cells import cell_names
from etalstm.network.delta_inputs import DeltaInputs, LayerThresholds
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.shared_tokens import OFF, check_shared_tokens
from etalstm.network.slices import AUTO, check_slices
from etalstm.network.storage import KINDS, POLICIES, Storage, read_thresholds
from etalstm_hw.config import PRESETS

FLOAT32, BF16 = "float32", "bf16"  # the contract calls weights in bf16 narrow
WEIGHT_FORMATS = (FLOAT32, BF16)

Number = TypeVar("Number", int, float)


def check_weight_format(name: str) -> str:
    """Give the name of a weight format, or raise ``ValueError`` if there is none of that name."""
    if name not in WEIGHT_FORMATS:
        raise ValueError(f"weight_format must be one of {', '.join(WEIGHT_FORMATS)}, got {name!r}")
    return name


@dataclass(frozen=True)
class Execution:
    """How a network is computed.

    The bits of a run depend on `slices`, `delta_inputs`, `weight_format`, and of `storage` on its thresholds and on
    bfloat16. They never depend on `shared_tokens` and `architecture`.

    Members
    -------
    storage : Storage
        How layers store intermediates, and the thresholds θ below which local gradients are dropped.
    slices : int
        Slices S of the batch: the order in which gradients are added, see :mod:`etalstm.network.slices`.
    delta_inputs : DeltaInputs
        Which elements of x and h layers broadcast in the forward pass. Default: all.
    weight_format : str
        How the passes read weights: as the ``float32`` that the update works on, or as ``bf16``, copies that are
        rounded to nearest even at load and at each update. Biases, gradients, velocities and all sums stay float32. A
        weight above the largest bfloat16 (3.39e38) is rounded to an infinity.
    shared_tokens : int or None
        If given, x are the vectors of tokens, and the terms of equal tokens in the first layer's gate sums are computed
        once, see :mod:`etalstm.network.shared_tokens`. A batch with more distinct tokens than this shares nothing.
    architecture : Architecture
        How the machine runs, an architecture of :mod:`etalstm.network.architecture` or its name. A device without PEs
        ignores it.
    arithmetic : Arithmetic
        How products are computed, an arithmetic of :mod:`etalstm.network.arithmetic` or its name. With integers the
        bits depend neither on `slices` nor on a refresh of `delta_inputs`.

    Raises ``ValueError`` if a member is of another type, `slices` is no integer above 0, there is no such weight
    format, the architecture cannot store intermediates like this, tokens are shared with delta inputs or on an
    architecture that skips no zeros, or weights are to be narrow with an arithmetic of integers.
    """

    storage: Storage = field(default_factory=Storage)
    slices: int = 1
    delta_inputs: DeltaInputs = field(default_factory=DeltaInputs)
    weight_format: str = FLOAT32
    shared_tokens: int | None = None
    architecture: Architecture = SWING
    arithmetic: Arithmetic = IN_FLOAT32

    def __post_init__(self) -> None:
        for name, named in (("architecture", named_architecture), ("arithmetic", arithmetic_named)):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, named(getattr(self, name)))
        of_types = {
            "storage": Storage,
            "delta_inputs": DeltaInputs,
            "architecture": Architecture,
            "arithmetic": Arithmetic,
        }
        for name, kind in of_types.items():
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} must be of type {kind.__name__}, got {type(getattr(self, name)).__name__}")
        object.__setattr__(self, "slices", check_size("slices", self.slices))
        check_weight_format(self.weight_format)
        if self.arithmetic.exact and self.weight_format != FLOAT32:
            raise ValueError(
                f"with arithmetic {self.arithmetic.name} weights are integers: weight_format must be {FLOAT32}, "
                f"got {self.weight_format}"
            )
        self.architecture.check_storage(self.storage)
        shared = check_shared_tokens(self.shared_tokens, self.delta_inputs, self.architecture)
        object.__setattr__(self, "shared_tokens", shared)

    @classmethod
    def read(
        cls,
        *,
        theta: str | float | tuple[float, ...] = 0.0,
        storage: str | tuple[str, ...] | None = None,
        slices: int = 1,
        input_threshold: str | float | tuple[LayerThresholds, ...] = 0.0,
        refresh: int | None = None,
        weight_format: str = FLOAT32,
        shared_tokens: str | int | None = None,
        architecture: str = SWING.name,
        arithmetic: str = IN_FLOAT32.name,
        delta_bits: int | None = None,
    ) -> "Execution":
        """Make an execution of a user's texts or numbers; the ``ValueError`` names the one that cannot be read.

        `theta` and `storage` are as :meth:`etalstm.network.storage.Storage.of` takes them, `input_threshold` and
        `refresh` as :meth:`etalstm.network.delta_inputs.DeltaInputs.of` does, or its :meth:`read` for a text.
        `shared_tokens` as a text is a number, or ``off``; `architecture` and `arithmetic` are names, `delta_bits` the
        bits of δ, if not those of the arithmetic.
        """
        thresholds = read_thresholds(theta) if isinstance(theta, str) else theta
        if isinstance(input_threshold, str):
            delta_inputs = DeltaInputs.read(input_threshold, refresh)
        else:
            delta_inputs = DeltaInputs.of(input_threshold, refresh)
        return cls(
            storage=Storage.of(storage, thresholds),
            slices=slices,
            delta_inputs=delta_inputs,
            weight_format=weight_format,
            shared_tokens=_read_tokens(shared_tokens) if isinstance(shared_tokens, str) else shared_tokens,
            architecture=named_architecture(architecture),
            arithmetic=arithmetic_named(arithmetic, delta_bits),
        )

    @property
    def narrow(self) -> bool:
        """Whether the passes read weights in bfloat16."""
        return self.weight_format == BF16

    def check(self, network: NetworkShape, batch: int) -> None:
        """Raise ``ValueError`` if a network with a batch of so many sequences cannot be computed like this.

        There must be no more slices than sequences, and members given by layer must have as many entries as there are
        layers. Only an LSTM has delta inputs, narrow weights and shared tokens. Compressed storage is for cells with
        the kinds of local gradients of an LSTM.
        """
        check_slices(self.slices, batch)
        self.check_layers(network.layers)
        if self.storage.compressed and (kinds := network.declared.kinds) != KINDS:
            raise ValueError(
                f"compressed storage knows the local gradients {', '.join(KINDS)}: with cell {network.cell}, which has "
                f"{', '.join(kinds)}, storage must be dense, got {self.storage.policy}"
            )
        asked = {
            "delta inputs": not self.delta_inputs.off,
            f"weights in {self.weight_format}": self.weight_format != FLOAT32,
            "shared tokens": self.shared_tokens is not None,
        }
        for what in (what for what, is_asked in asked.items() if is_asked):
            network.require_lstm(what)

    def check_layers(self, layers: int) -> None:
        """Raise ``ValueError`` if storage or delta inputs are given by layer, for another number of layers."""
        self.storage.check_layers(layers)
        self.delta_inputs.check_layers(layers)

    def of_layers(self, layers: Iterable[int]) -> "Execution":
        """Give how a network of some of the layers is computed. Tokens are shared in the first layer only."""
        chosen = list(layers)
        return Execution(
            self.storage.of_layers(chosen), self.slices, self.delta_inputs.of_layers(chosen), self.weight_format,
            self.shared_tokens if 0 in chosen else None, self.architecture, self.arithmetic,
        )  # fmt: skip

    @property
    def text(self) -> str:
        """The members that differ from the default, as a line of JSON that :meth:`from_text` reads."""
        chosen = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        plain, default = asdict(self), Execution()
        return json.dumps({name: plain[name] for name, value in chosen.items() if value != getattr(default, name)})

    @classmethod
    @lru_cache
    def from_text(cls, text: str) -> "Execution":
        """Read a :attr:`text`; the result equals the object that has written it. The last results are cached."""
        values = json.loads(text)
        made: dict[str, Callable[..., Any]] = {
            "storage": Storage,
            "delta_inputs": DeltaInputs,
            "architecture": _architecture,
            "arithmetic": Arithmetic,
        }
        return cls(**{name: made[name](**value) if name in made else value for name, value in values.items()})


def _read_tokens(text: str) -> int | None:
    """Read a number of shared tokens, or ``off``: None."""
    found = tokens_or_auto(text)
    if found == AUTO:
        raise ValueError(f"shared_tokens can be {AUTO} only where there are data, got {text!r}")
    return found if isinstance(found, int) else None


def _architecture(division: dict | None, **members: Any) -> Architecture:
    return Architecture(division=Division(**division) if division else None, **members)


PRESET_HELP = f"Configuration of the accelerator: {', '.join(PRESETS)}; or a TOML file with a base and what differs"
ARCHITECTURE_HELP = f"How the machine runs: {', '.join(ARCHITECTURES)}"
ARITHMETIC_HELP = f"How products are computed: {', '.join(ARITHMETICS)}"
DELTA_BITS_HELP = (
    f"Bits of the gates' gradients, {DELTA_BITS[0]} to {DELTA_BITS[-1]}, with an arithmetic of integers "
    f"[default: {', '.join(f'{each.name} {each.delta_bits}' for each in ARITHMETICS.values() if each.exact)}]"
)
STORAGE_HELP = f"How intermediates are stored: {', '.join(POLICIES)}"
CELL_HELP = f"Cell of all layers: {' or '.join(cell_names())}"
INPUT_THRESHOLD_HELP = (
    "Send an element of x or h only where it moved by so much: one number, or by layer 0.1,0.2, for x and h 0.1/0.2,0.1"
)
REFRESH_HELP = (
    "Steps from one at which everything is sent to the next; 0: only the first is "
    "[default: 0 with an input threshold, else 1]"
)
WEIGHT_FORMAT_HELP = "How the passes read weights: float32 or bf16 (half the memory); updates work on float32"
SHARED_TOKENS_HELP = "Compute what equal tokens add to the first layer's gate sums once, for so many a batch; or off"
SLICES_HELP = "Slices of the batch, whose gradients are added as a tree: part of a run, the bits depend on it"


def _read_number(name: str, text: str, kind: type[Number], expected: str) -> Number:
    try:
        return kind(text)
    except ValueError as error:
        raise ValueError(f"{name} must be {expected}, got {text!r}") from error


def number_or_off(name: str, text: str) -> float | None:
    """Read an option that is a number, or ``off``; the range is not checked here."""
    return None if text == OFF else _read_number(name, text, float, f"a number, or {OFF}")


def tokens_or_auto(text: str) -> int | str:
    """Read a number of shared tokens, ``auto`` or ``off``; the range is not checked here."""
    expected = f"a positive integer, {AUTO} or {OFF}"
    return text if text in (OFF, AUTO) else _read_number("shared_tokens", text, int, expected)


def slices_or_auto(text: str) -> int | str:
    """Read a number of slices, or ``auto``; the range is not checked here."""
    return text if text == AUTO else _read_number("slices", text, int, f"an integer, or {AUTO}")
