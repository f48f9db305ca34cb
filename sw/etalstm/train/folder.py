"""A run's folder: its files, its lock, and protection against overwriting a run."""

import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from etalstm.data import Encoding
from etalstm.errors import RunError
from etalstm.host.durable import write_whole
from etalstm.host.strict import check_fields, read_json
from etalstm.train.checkpoint import Checkpoint
from etalstm.train.declared import RunSettings
from etalstm.train.reports import EVENT_FILE
from etalstm.train.settings import Settings

SETTINGS, METRICS, ENCODING = "settings.toml", "metrics.jsonl", "encoding.json"
CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
DENSE, NETWORK = "dense.safetensors", "network.safetensors"
FILES = (CHECKPOINT, BEST, DENSE, NETWORK, METRICS, ENCODING, SETTINGS)
EVENTS, LOCK = "events", ".lock"


class RunFolder:
    """The folder of a run.

    ``settings.toml`` has the run's settings, ``metrics.jsonl`` its log, ``checkpoint.safetensors`` its last state,
    ``best.safetensors`` that with the lowest validation loss, and ``encoding.json`` the tokens and labels. The
    folder ``events`` has the log's numbers once more, for TensorBoard. A run of ``eta-lstm research compress`` has the
    dense start in ``dense.safetensors``, and the small network in ``network.safetensors``.

    `path`: need not exist yet.
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.settings, self.metrics, self.encoding = (self.path / name for name in (SETTINGS, METRICS, ENCODING))
        self.checkpoint, self.best = self.path / CHECKPOINT, self.path / BEST
        self.dense, self.network = self.path / DENSE, self.path / NETWORK
        self.events = self.path / EVENTS
        self._made = False
        self._lock: FileLock | None = None

    def open(self, resume: bool = False, overwrite: bool = False) -> None:
        """Make the folder if need be, and lock it; an open folder stays open.

        Raises :class:`RunError` if there is a run in it and it is neither to go on nor to be overwritten, if another
        process has the folder, or if something else than a file has the name of one of the run's; and ``OSError`` if it
        cannot be made or written to.
        """
        if self._lock is not None:
            return
        if resume and not self.path.is_dir():
            raise RunError(f"{self.path}: there is no folder of a run to go on with")
        self._made = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        there = self._files_there()
        if there and not (resume or overwrite):
            raise RunError(
                f"{self.path} holds a run already ({there[0]}): --resume goes on with it, --overwrite begins anew"
            )
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise RunError(f"{self.path}: another process trains in this folder") from error
        self._lock = lock
        for name in FILES:
            for left_over in self.path.glob(f"{name}.*.tmp"):  # of a process that was killed while it wrote
                left_over.unlink()

    def clear(self) -> None:
        """Remove a run's files."""
        for name in self._files_there():
            (self.path / name).unlink()
        for path in self.events.glob(f"{EVENT_FILE}.*"):
            path.unlink()

    def _files_there(self) -> list[str]:
        for name in (*FILES, LOCK):
            if os.path.lexists(self.path / name) and not (self.path / name).is_file():
                raise RunError(f"{self.path / name} must be a file, but is something else")
        return [name for name in FILES if (self.path / name).exists()]

    def close(self) -> None:
        """Unlock the folder, and remove it if :meth:`open` made it and nothing was written; closing twice is fine."""
        if self._lock is None:
            return
        unused = self._made and [path.name for path in self.path.iterdir()] == [LOCK]
        if unused:
            (self.path / LOCK).unlink()
        self._lock.release()
        self._lock = None
        if unused:
            with suppress(OSError):  # another process has begun a run here
                self.path.rmdir()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write_settings(self, settings: Settings | RunSettings) -> None:
        """Write the settings that the run has from now on."""
        write_whole(self.settings, settings.text_of_file())

    def settings_to_resume(self) -> dict:
        """Read the settings that the run's file names.

        Raises :class:`CheckpointError` if there is no checkpoint, or one of another version of this program, and
        :class:`RunError` if the settings are missing or malformed.
        """
        Checkpoint.read(self.checkpoint)
        return Settings.read(self.settings)

    def read_settings(self) -> Settings:
        """Read the settings.

        Raises :class:`RunError` if the folder has no run, or its settings are malformed.
        """
        if not self.settings.is_file():
            raise RunError(f"{self.path} must be the folder of a run of eta-lstm train, but holds no {SETTINGS}")
        return Settings.load(self.settings)

    def read_encoding(self) -> Encoding:
        """Read the tokens and labels; :class:`RunError`, naming file and field, if they are malformed."""
        table = read_json(self.encoding, "there is no such file of tokens and labels")
        return Encoding(**check_fields(Encoding, table, self.encoding, RunError))
