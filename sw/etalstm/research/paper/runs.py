"""The file of what the cycle model has answered, so that a run that was interrupted goes on."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from etalstm.errors import RunError
from etalstm.host.computer import worker_processes
from etalstm.host.durable import write_whole
from etalstm.research.paper.requests import Request

_ROOT = Path(__file__).parents[2]
_DIGESTED = ("model", "plan", "network")  # what answers depend on


class _Written(BaseModel):
    """The file."""

    model_config = ConfigDict(strict=True, extra="forbid")

    digest: str
    runs: dict[str, dict]


class Runs:
    """Answers by request, in a file that is written after each.

    Answers of other sources than those that are installed are not used.

    Parameters
    ----------
    path : Path
        Read if it is there.
    config : str
        Of the machine, as text.

    Raises
    ------
    RunError
        If the file is not what this class writes.
    """

    def __init__(self, path: Path, config: str):
        self._path, self._digest, self._found = path, _digest(config), {}
        if path.exists():
            self._found = self._read()

    def _read(self) -> dict[str, dict]:
        try:
            written = _Written.model_validate_json(self._path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()
            raise RunError(f"{self._path} must be a file of eta-lstm research paper; move it away: {reason}") from error
        return written.runs if written.digest == self._digest else {}

    def __call__(self, request: Request) -> dict:
        """Give what was found."""
        return self._found[request.key]

    def complete(
        self,
        requests: Iterable[Request],
        measure: Callable[[Request], dict],
        processors: int,
        report: Callable[[Request, dict], None],
    ) -> None:
        """Measure what is missing, on so many processors; `report` is told every answer."""
        missing = {request.key: request for request in requests if request.key not in self._found}
        for request, found in _all(list(missing.values()), measure, processors):
            self._found[request.key] = found
            write_whole(self._path, json.dumps({"digest": self._digest, "runs": self._found}, indent=1) + "\n")
            report(request, found)


def _all(requests: Sequence[Request], measure: Callable[[Request], dict], processors: int):
    if min(len(requests), processors) <= 1:
        yield from ((request, measure(request)) for request in requests)
        return
    with worker_processes(min(len(requests), processors)) as pool:
        yield from zip(requests, pool.map(measure, requests), strict=True)


def _digest(config: str) -> str:
    """Tell sources and machines apart."""
    found = hashlib.sha256(config.encode())
    for name in _DIGESTED:
        path = _ROOT / name
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found.update(source.read_bytes())
    return found.hexdigest()[:16]
