"""Pedestrians' paths (ETH and UCY): predicts 12 positions from the 8 before them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from etalstm.data.dataset import REGRESS
from etalstm.data.files import read_lines
from etalstm.data.sequences import Example, Sequences, hold_out
from etalstm.errors import DataError

TRAIN = ("biwi_eth", "biwi_hotel", "crowds_zara02", "crowds_zara03", "students001", "students003", "uni_examples")
TEST = "crowds_zara01"  # recorded at a site of no training path
FRAMES = 10  # from one step to the next: 0.4 s
SEEN, PREDICTED = 8, 12  # steps
VALIDATION_SHARE = 0.1  # of the pedestrians of the training recordings

Path2D = np.ndarray  # positions of consecutive steps in metres, float64, (N, 2)


class Trajectories(Sequences):
    """Windows of 20 steps, beginning at every step of each path; the recording of one site is for test.

    An input is a position relative to the last known one, and relative to the position before: 4 numbers in metres.
    The answer is the 12 positions that follow, relative to the last known one: x and y of each.

    Raises :class:`DataError` if a file is missing or empty, or a line does not have four numbers; the message names
    file and line.

    `directory`: holds a file for each recording, ``biwi_eth.txt`` and so on: frame, pedestrian, x, y, with tabs
    between.
    """

    def __init__(self, directory: Path):
        paths = [path for name in TRAIN for path in self._paths(directory, name)]
        train, validation = hold_out(paths, VALIDATION_SHARE)
        divided = {"train": train, "validation": validation, "test": self._paths(directory, TEST)}
        splits = {split: [_example(w) for path in paths for w in _windows(path)] for split, paths in divided.items()}
        super().__init__("ethucy", REGRESS, splits, 2 * PREDICTED, steps=SEEN)
        self.notes = [self._note(splits["test"])]

    def _note(self, test: list[Example]) -> str:
        """Give the errors of predicting a constant velocity, as a baseline."""
        targets = np.stack([example.target for example in test])
        straight = np.stack([np.outer(np.arange(1, PREDICTED + 1), example.x[-1, 2:]).ravel() for example in test])
        found = {name: values.mean() for name, values in self.measures(straight, targets).items()}
        return f"going straight on at the last pace: ade {found['ade']:.3f}, fde {found['fde']:.3f} m on the test split"

    def measures(self, outputs, targets):
        """Give the mean (``ade``) and the final (``fde``) displacement error of each window, in metres."""
        distances = np.linalg.norm((outputs - targets).reshape(len(outputs), PREDICTED, 2), axis=2)
        return {"ade": distances.mean(axis=1), "fde": distances[:, -1]}

    @staticmethod
    def _paths(directory: Path, name: str) -> list[Path2D]:
        """Give the unbroken paths of a recording, pedestrian by pedestrian."""
        found: dict[float, list[tuple[float, float, float]]] = {}
        for n, line in enumerate(read_lines(directory, f"{name}.txt", "utf-8"), 1):
            try:
                frame, pedestrian, x, y = map(float, line.split("\t"))
                if not np.isfinite((frame, pedestrian, x, y)).all():
                    raise ValueError
            except ValueError:
                where = f"{directory / name}.txt, line {n}"
                raise DataError(f"{where}: expected frame, pedestrian, x and y, got {line[:40]!r}") from None
            found.setdefault(pedestrian, []).append((frame, x, y))
        return [path for _, rows in sorted(found.items()) for path in _unbroken(np.array(sorted(rows)))]


def _unbroken(rows: np.ndarray) -> list[Path2D]:
    """Cut the rows (frame, x, y) of a pedestrian where a step is missing."""
    breaks = np.flatnonzero(np.diff(rows[:, 0]) != FRAMES) + 1
    return [path[:, 1:] for path in np.split(rows, breaks)]


def _windows(path: Path2D) -> Iterator[Path2D]:
    for first in range(len(path) - SEEN - PREDICTED + 1):
        yield path[first : first + SEEN + PREDICTED]


def _example(window: Path2D) -> Example:
    seen, following = np.split(window - window[SEEN - 1], [SEEN])
    paces = np.diff(seen, axis=0, prepend=seen[:1])
    return Example(np.concatenate([seen, paces], axis=1).astype(np.float32), following.ravel().astype(np.float32))
