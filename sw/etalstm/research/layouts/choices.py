"""Choices that were made by timing on this machine, in a file."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from filelock import FileLock

from etalstm.host.computer import count_processors, processor_name
from etalstm.host.durable import write_whole

LONGEST_S = 10.0  # to wait for another process that writes


@dataclass(frozen=True)
class Machine:
    """What timings depend on, besides the sizes of what is timed.

    Members
    -------
    processor : str
        Its model.
    processors : int
        Those that this process may use.
    torch : str
        Version of PyTorch.
    threads : int
        Of PyTorch.
    """

    processor: str
    processors: int
    torch: str
    threads: int

    @classmethod
    def here(cls) -> "Machine":
        """Describe the machine that this runs on, as this process is set now."""
        return cls(processor_name(), count_processors(), torch.__version__, torch.get_num_threads())


class Choices:
    """Choices by name, in a file for each machine.

    A file that is damaged, or of another machine, counts as empty; the next choice replaces it.

    Parameters
    ----------
    folder : Path
        Made when the first choice is written.
    machine : Machine
    allowed : tuple of str
        What may be chosen; everything else in a file is left out.

    Members
    -------
    path : Path
        Of the file.
    """

    def __init__(self, folder: Path, machine: Machine, allowed: tuple[str, ...]):
        self._machine, self._allowed = asdict(machine), allowed
        digest = hashlib.sha256(json.dumps(self._machine).encode()).hexdigest()
        self.path = folder / f"layouts-{digest[:12]}.json"

    def get(self, name: str) -> str | None:
        """Give what was chosen under a name, or None."""
        return self._read().get(name)

    def put(self, name: str, choice: str) -> str:
        """Keep a choice for other processes, and give it; or give that of a process that was faster.

        Where no file can be written, there is nothing to keep.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_suffix(".lock"), timeout=LONGEST_S):
                known = self._read()
                if name not in known:
                    known[name] = choice
                    write_whole(self.path, json.dumps({"machine": self._machine, "choices": known}, indent=1))
                return known[name]
        except OSError:
            return choice  # the next process chooses again

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict) or found.get("machine") != self._machine:
            return {}
        choices = found.get("choices")
        items = choices.items() if isinstance(choices, dict) else ()
        return {name: choice for name, choice in items if choice in self._allowed}
