"""Numba's cache of compiled loops, kept honest."""

from pathlib import Path

from etalstm.hw.fp import tables


def drop_stale() -> None:
    """Remove cached machine code that is older than any source it may contain.

    Numba looks only at the file of the cached function itself, but the machine code holds its callees too: a loop
    compiled before a change of the multiplier or of the tables would silently keep the old bits.
    """
    here = Path(__file__).parent
    newest = max(source.stat().st_mtime for source in [*here.glob("*.py"), Path(tables.__file__)])
    for index in (here / "__pycache__").glob("*.nbi"):
        try:
            if index.stat().st_mtime < newest:
                index.unlink()
        except FileNotFoundError:
            continue  # another process was faster
