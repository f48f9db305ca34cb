"""The golden model's machine code, kept honest."""

from pathlib import Path

from etalstm.formats import codec
from etalstm.host.stale import drop_older_code
from etalstm_hw import contract
from etalstm_hw.contract import activation_tables as tables


def drop_stale() -> None:
    """Remove cached loops that are older than a source they may contain: the multiplier, say, or the codec."""
    drop_older_code(Path(__file__).parent.rglob("*.py"), (codec, *contract.PARTS, tables))
