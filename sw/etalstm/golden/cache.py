"""The golden model's machine code, kept honest."""

from pathlib import Path

from etalstm import codec
from etalstm.host.stale import drop_older_code
from etalstm_hw import contract
from etalstm_hw.fp import tables


def drop_stale() -> None:
    """Remove cached loops that are older than a source they may contain: the multiplier, say, or the codec."""
    drop_older_code(Path(__file__).parent.glob("*.py"), (codec, *contract.PARTS, tables))
