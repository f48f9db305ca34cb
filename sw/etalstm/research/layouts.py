"""Two layouts of a matrix product of a batch, and the choice between them by timing.

``batch-major``
    Y (B, N) = X (B, K) · Wᵀ: the elements of one sequence are neighbours in memory.
``batch-minor``
    Y (N, B) = W · X (K, B): the elements of one unit, of all sequences, are neighbours in memory.

Which one is faster depends on the sizes, the processor, PyTorch's version and its threads. So both are timed once for
each shape on each machine. Results differ by the rounding of sums only. Source: EcoRNN (Zheng et al. 2018).
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from filelock import FileLock

from etalstm.host.cached_build import cache_path
from etalstm.host.computer import count_processors, processor_name
from etalstm.host.durable import write_whole
from etalstm.host.turns import take_turns

LONGEST_S = 10.0  # that a process waits while another one writes


@dataclass(frozen=True)
class Machine:
    """A machine as timings see it: processor, processors of this process, PyTorch's version and threads."""

    processor: str
    processors: int
    torch: str
    threads: int

    @classmethod
    def here(cls) -> "Machine":
        """Describe the machine that this runs on, as this process is set now."""
        return cls(processor_name(), count_processors(), torch.__version__, torch.get_num_threads())


class Choices:
    """Choices by name, in a file for each machine; the folder is made when the first choice is written.

    A file that is damaged, or of another machine, counts as empty; the next choice replaces it. Choices in a file that
    are not `allowed` are left out.
    """

    def __init__(self, folder: Path, machine: Machine, allowed: tuple[str, ...]):
        self._machine, self._allowed = asdict(machine), allowed
        digest = hashlib.sha256(json.dumps(self._machine).encode()).hexdigest()
        self.path = folder / f"layouts-{digest[:12]}.json"

    def get(self, name: str) -> str | None:
        """Give what was chosen under a name, or None."""
        return self._read().get(name)

    def put(self, name: str, choice: str) -> str:
        """Store a choice for other processes, and give it. If another process was faster, give its choice.

        If no file can be written, nothing is stored.
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


BATCH_MAJOR, BATCH_MINOR = "batch-major", "batch-minor"
LAYOUTS = (BATCH_MAJOR, BATCH_MINOR)
FORCE = "ETALSTM_LAYOUT"  # an environment variable: the layout of all products, instead of a choice

BUDGET_S = 0.1  # of timing, for one shape; large shapes take longer, as each layout has eight turns at least
TURNS, LEAST_ROUNDS = 2, 4  # a round has a turn in each direction; with fewer rounds other programs may decide
CALLS = 2  # of a work in its turn; one of them counts, as a single call is most likely undisturbed
_FORCED: ContextVar[str | None] = ContextVar("forced", default=None)


@dataclass(frozen=True)
class Shape:
    """A product's shape, which with the machine decides the faster layout: N outputs, K inputs, B, type and device."""

    outputs: int
    inputs: int
    batch: int
    dtype: torch.dtype
    device: torch.device

    def __str__(self) -> str:
        device = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
        return f"{self.outputs} x {self.inputs} x {self.batch} {str(self.dtype).removeprefix('torch.')} {device}"


_KNOWN: dict[tuple[Shape, int], str] = {}  # what this process has chosen, by shape and threads


def chosen_layout(shape: Shape, work: Callable[[str], Callable[[], object]]) -> str:
    """Give the layout of a product: the forced one, else the one that was faster on this machine.

    `work` makes, for a layout, the call that is timed. It is called only for a shape that was never timed here.
    ``ValueError`` if the environment names no layout.
    """
    if layout := _FORCED.get():
        return layout
    if os.environ.get(FORCE):
        return check_layout(os.environ[FORCE], FORCE)
    key = shape, torch.get_num_threads()
    if key not in _KNOWN:
        choices, name = Choices(cache_path(), Machine.here(), LAYOUTS), str(shape)
        stored = choices.get(name)
        _KNOWN[key] = stored or choices.put(name, min(zip(timed(list(map(work, LAYOUTS))), LAYOUTS, strict=True))[1])
    return _KNOWN[key]


def timed(works: Sequence[Callable[[], object]], budget_s: float = BUDGET_S) -> list[float]:
    """Give the seconds of each work's fastest call. Works take turns for `budget_s` seconds; eight turns at least."""
    ends, fastest = time.perf_counter() + budget_s, [float("inf")] * len(works)
    rounds = 0
    while rounds < LEAST_ROUNDS or time.perf_counter() < ends:
        seconds = take_turns(works, TURNS, CALLS).min(axis=1).tolist()
        fastest, rounds = list(map(min, fastest, seconds)), rounds + 1
    return fastest


def check_layout(layout: str, name: str = "layout") -> str:
    """Give a layout, or raise ``ValueError`` if there is no such layout."""
    if layout not in LAYOUTS:
        raise ValueError(f"{name} must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    return layout


@contextmanager
def forced(layout: str) -> Iterator[None]:
    """Have every choice of this thread be `layout`; nothing is timed."""
    token = _FORCED.set(check_layout(layout))
    try:
        yield
    finally:
        _FORCED.reset(token)
