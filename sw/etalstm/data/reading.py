"""What a user says of how a file is to be read."""

from dataclasses import asdict, dataclass, replace

from etalstm.data.dataset import LANGUAGE, TAG
from etalstm.data.encoding import CHARACTERS, WORDS


@dataclass(frozen=True)
class Columns:
    """The columns that a table was read by, see :class:`Reading`; None where it has no such."""

    text: str | None = None
    label: str | None = None
    sequence: str | None = None
    vector: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How a user's file is read.

    Parameters
    ----------
    task : str
        One of :data:`etalstm.data.TASKS`.
    tokens : str, optional
        One of :data:`etalstm.data.UNITS`; words if not given, for the task ``language`` characters.
    lower : bool
        Texts are taken in lower case.
    vocabulary : int, optional
        At most so many tokens, the most frequent ones of the training split; others count as the unknown one.
    text, label, sequence : str, optional
        Columns of the text, of class, tag or number, and of what tells which sequence a row belongs to. The first two
        are guessed if not given; a column that is called ``sequence`` needs not be.
    vector : tuple of str
        Columns of a step's numbers, in their order, where sequences are vectors; if empty, all columns but those of
        label and sequence.
    validation, test : str, optional
        Files of these splits; shares of the file if not given.
    validation_share, test_share : float
        Those shares.
    split_seed : int
        Of the choice which example is in which split.

    Raises
    ------
    ValueError
        If the task is ``tag`` and tokens are not words: a tag belongs to a word of the table.
    """

    task: str
    tokens: str | None = None
    lower: bool = False
    vocabulary: int | None = None
    text: str | None = None
    label: str | None = None
    sequence: str | None = None
    validation: str | None = None
    test: str | None = None
    validation_share: float = 0.1
    test_share: float = 0.1
    split_seed: int = 0
    vector: tuple[str, ...] = ()

    def __post_init__(self):
        if self.task == TAG and self.unit != WORDS:
            raise ValueError(f"tokens must be {WORDS} for the task {TAG}, got {self.tokens!r}")

    def by(self, columns: Columns) -> "Reading":
        """Give the reading of a further file, by the columns of the first one."""
        found = {name: column for name, column in asdict(columns).items() if column is not None and column != ()}
        return replace(self, **found)

    @property
    def unit(self) -> str:
        """What a token is."""
        return self.tokens or (CHARACTERS if self.task == LANGUAGE else WORDS)

    @property
    def files(self) -> dict[str, str]:
        """The splits that have files of their own."""
        return {split: file for split, file in (("validation", self.validation), ("test", self.test)) if file}

    @property
    def shares(self) -> dict[str, float]:
        """The shares of the file of the splits that have none."""
        shares = {"validation": self.validation_share, "test": self.test_share}
        return {split: share for split, share in shares.items() if split not in self.files}
