"""Settings of a training run's data: a data set, or a user's own file and how to read it."""

from dataclasses import dataclass
from pathlib import Path

from etalstm.data import DATASETS, TASKS, UNITS, Reading
from etalstm.data.arrays import ARRAYS
from etalstm.data.buckets import NONE
from etalstm.data.dataset import LANGUAGE
from etalstm.data.encoding import BYTES
from etalstm.network.shape import check_size
from etalstm.train.declared import NEVER, RunSettings, Unused, absolute, at_least_0, one_of, setting, within_0_and_1

DATA = "Data"  # the panel of the help

WITHOUT_TASK = Unused("only used with --task", lambda run, _: run.task is None)
WITH_LANGUAGE = Unused("not used with --task language", lambda run, _: run.task == LANGUAGE)
WITH_ARRAYS = Unused(
    "not used with a file of arrays", lambda run, _: run.task and Path(run.data).suffix.lower() == ARRAYS
)
WITH_VECTORS = Unused("not used where inputs are vectors", lambda _, data: data.input_size)
WITH_VALIDATION = Unused("not used with --validation", lambda run, _: run.validation is not None)
WITH_TEST = Unused("not used with --test", lambda run, _: run.test is not None)
WITH_BOTH_FILES = Unused("not used with --validation and --test", lambda run, _: None not in (run.validation, run.test))
WITH_BYTES = Unused("not used with --tokens bytes", lambda run, _: run.tokens == BYTES)
OF_TOKENS = (WITHOUT_TASK, WITH_ARRAYS, WITH_VECTORS)
OF_TABLE = (WITHOUT_TASK, WITH_LANGUAGE, WITH_ARRAYS)


@dataclass(frozen=True)
class DataSettings(RunSettings):
    """The data of a run: see :data:`etalstm.data.DATASETS`, and for a file of one's own :class:`etalstm.data.Reading`.

    With `buckets` (:func:`etalstm.data.buckets.read_buckets`) a batch has the steps of its bucket, and `steps` is not
    given. For a resumed run the content of the files must be the same; their names may differ.
    """

    dataset: str | None = setting(None, ", ".join(DATASETS), DATA, may_differ=NEVER)
    buckets: str = setting(
        NONE,
        "Batches of similar length: the most steps of each bucket, 8,16,32; auto: buckets of a batch of sequences "
        "at least; or none", DATA, may_differ=NEVER,
    )  # fmt: skip
    data: str | None = setting(
        None, "Directory of the data set's files; with --task a file of one's own", DATA, typed=Path, read=absolute,
        may_differ=NEVER,
    )  # fmt: skip
    task: str | None = setting(
        None, f"What is learnt of that file: {', '.join(TASKS)}", DATA, one_of(TASKS), may_differ=NEVER
    )
    tokens: str | None = setting(
        None, f"{', '.join(UNITS)} [default: words, for language characters]", DATA, one_of(UNITS), unused=OF_TOKENS
    )
    lower: bool = setting(False, "Texts in lower case", DATA, unused=OF_TOKENS)
    vocabulary: int | None = setting(
        None, "At most so many tokens, the most frequent; others are unknown", DATA, check_size,
        unused=(*OF_TOKENS, WITH_BYTES),
    )  # fmt: skip
    text: str | None = setting(
        None, "Column of the text [default: guessed, and printed]", DATA, unused=(*OF_TABLE, WITH_VECTORS),
    )  # fmt: skip
    label: str | None = setting(
        None, "Column of class, tag or number [default: guessed, and printed]", DATA, unused=OF_TABLE,
    )  # fmt: skip
    sequence: str | None = setting(
        None, "Column that tells which sequence a row belongs to [default: sequence]", DATA, unused=OF_TABLE,
    )  # fmt: skip
    no_header: bool = setting(
        False,
        "Tables have no line of names: columns are 1, 2, 3 [default: guessed, and printed]",
        DATA,
        unused=OF_TABLE,
    )
    validation: str | None = setting(
        None, "File of the validation split [default: a share]", DATA, typed=Path, read=absolute, unused=(WITHOUT_TASK,)
    )
    test: str | None = setting(
        None, "File of the test split [default: a share]", DATA, typed=Path, read=absolute, unused=(WITHOUT_TASK,)
    )
    validation_share: float = setting(
        Reading.validation_share, "Share for validation, where there is no file", DATA, within_0_and_1,
        unused=(WITHOUT_TASK, WITH_VALIDATION),
    )  # fmt: skip
    test_share: float = setting(
        Reading.test_share, "Share for the test, where there is no file", DATA, within_0_and_1,
        unused=(WITHOUT_TASK, WITH_TEST),
    )  # fmt: skip
    split_seed: int = setting(
        Reading.split_seed, "Seed of the division of examples into splits", DATA, at_least_0,
        unused=(WITHOUT_TASK, WITH_LANGUAGE, WITH_BOTH_FILES),
    )  # fmt: skip
