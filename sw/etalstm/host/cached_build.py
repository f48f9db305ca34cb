"""Cached builds: folders in the user's cache, named by a hash of their inputs, that appear only when complete."""

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from etalstm.errors import ToolchainError
from etalstm.host.durable import sync


def cache_path() -> Path:
    """Give ``$ETALSTM_CACHE``, else ``eta-lstm`` in the XDG cache directory. The folder need not be there.

    A user without a home that can be written has a folder of that name and the user's number among the temporary ones.
    """
    if chosen := os.environ.get("ETALSTM_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or _home_cache()
    return Path(base) / "eta-lstm" if base else Path(tempfile.gettempdir()) / f"eta-lstm-{os.geteuid()}"


def _home_cache() -> Path | None:
    """Give the cache of the user's home; None if there is no home, or nothing can be written there."""
    try:
        home = Path.home()
    except RuntimeError:  # there is no HOME, and the user is in no list
        return None
    cache = home / ".cache"
    folder = cache if cache.is_dir() else home
    return cache if folder.is_dir() and os.access(folder, os.W_OK) else None


@contextmanager
def cache_for_programs() -> Iterator[None]:
    """Have programs that the block starts find a cache folder, if they look in the user's home and nothing is there."""
    if os.environ.get("XDG_CACHE_HOME") or _home_cache():
        yield
        return
    os.environ["XDG_CACHE_HOME"] = str(cache_directory())
    try:
        yield
    finally:
        del os.environ["XDG_CACHE_HOME"]


SEAL = "sha256.json"


def seal(directory: Path) -> None:
    """Write the digest of every file in a folder into a file there, and flush all of them to the disk."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    digests = {str(path.relative_to(directory)): _digest(path) for path in files}
    (directory / SEAL).write_text(json.dumps(digests, indent=1), encoding="utf-8")
    for path in (*files, directory / SEAL, directory):
        sync(path)


def is_sealed(directory: Path) -> bool:
    """Tell whether all files that a folder was sealed with are unchanged; files added later do not count."""
    try:
        digests = json.loads((directory / SEAL).read_text(encoding="utf-8"))
        return all(_digest(directory / name) == digest for name, digest in digests.items())
    except (OSError, ValueError, AttributeError):
        return False


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_CACHE_FORMAT = "sealed"  # of the folders; another text makes every key a new one


def cache_directory() -> Path:
    """Create and give the folder of builds, :func:`cache_path`.

    Raises :class:`ToolchainError` if it cannot be created, or another user could write there: programs in it are run.
    """
    try:
        directory = cache_path()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileNotFoundError as error:  # no temporary folder either
        raise ToolchainError(f"there is no place for the build cache ({error}); set ETALSTM_CACHE") from None
    except OSError as error:
        raise ToolchainError(
            f"cannot create the build cache {directory} ({error.strerror}); set ETALSTM_CACHE"
        ) from None
    _check_trusted(directory)
    return directory.resolve()


def _check_trusted(directory: Path) -> None:
    """Raise :class:`ToolchainError` unless a folder is the user's own, and others cannot write there."""
    found, advice = directory.stat(), "set ETALSTM_CACHE to a folder of your own: programs in it are run"
    if found.st_uid != os.geteuid():
        raise ToolchainError(
            f"the build cache {directory} belongs to user {found.st_uid}, not {os.geteuid()}; {advice}"
        )
    ours = found.st_gid == os.getegid()  # the user's own group, as with umask 002
    if found.st_mode & (stat.S_IWOTH if ours else stat.S_IWOTH | stat.S_IWGRP):
        mode = stat.filemode(found.st_mode)
        raise ToolchainError(f"the build cache {directory} can be written by other users ({mode}); {advice}")


def cached_build(
    kind: str, key: Sequence[str], build: Callable[[Path], object], tools: Callable[[], str]
) -> tuple[Path, bool]:
    """Give the folder of a build, and build it if it is not in the cache.

    `kind`: subfolder of the cache for builds of this kind. `key`: everything that the result depends on, except the
    tools; `tools` gives these with their versions. `build`: fills the empty folder that it is given.

    Returns the folder, and whether this call has built it. The folder gets its name only when complete and on the disk,
    with the digests of its files; a folder that does not match its digests is built again. If several processes want it
    at once, one builds and the others wait.

    Raises :class:`ToolchainError` if the cache cannot be written.
    """
    digest = hashlib.sha256("\0".join([_CACHE_FORMAT, *key, tools()]).encode()).hexdigest()[:24]
    parent = cache_directory() / kind
    final = parent / digest
    try:
        parent.mkdir(exist_ok=True)
        for folder in (parent, *filter(Path.exists, [final])):
            _check_trusted(folder)
        if is_sealed(final):
            return final, False
        _remove_abandoned(parent)
        with (parent / f"{digest}.lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if is_sealed(final):  # by another process, in the meantime
                return final, False
            _build(final, build)
            return final, True
    except OSError as error:
        raise ToolchainError(
            f"cannot build in {parent}: {error}; make it writable and free some space, or set ETALSTM_CACHE"
        ) from error


def _build(final: Path, build: Callable[[Path], object]) -> None:
    """Build in a folder of another name, seal it, and give it its name."""
    working = Path(tempfile.mkdtemp(prefix=f"{final.name}.", dir=final.parent))
    try:
        build(working)
        seal(working)
        shutil.rmtree(final, ignore_errors=True)  # damaged, if it is there
        working.rename(final)
        sync(final.parent)
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        raise


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of builds that were killed, which are those whose locks are free."""
    for working in parent.glob("*.*/"):
        with (parent / f"{working.name.partition('.')[0]}.lock").open("w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(working, ignore_errors=True)
