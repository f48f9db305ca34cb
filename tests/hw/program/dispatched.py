"""Instructions as they leave the sequencer, made by hand."""

from etalstm_hw.contract import TARGET_BITS, Opcode, encode
from etalstm_hw.stream import Dispatched


def targets(everyone: int = 0, **counts: int) -> dict:
    """Give the waits until engines have completed so many instructions; others are not waited for."""
    waits = {name: {"target": count % (1 << TARGET_BITS), "wanted": 1} for name, count in counts.items()}
    return waits | {"everyone": everyone}


def dispatched(opcode: Opcode, waits: dict | None = None, **fields: int) -> int:
    """Encode an instruction with its waits, see :func:`targets`."""
    return Dispatched().const({"word": encode(opcode, **fields), "waits": waits or {}}).as_bits()
