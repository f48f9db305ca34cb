"""The C++ sources: the driver of a Verilated design, its memory, the AXI checker. They are in the folder ``cpp``."""

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "cpp"


def cpp_source(name: str) -> str:
    """Give the text of a file, by its name."""
    return (FOLDER / name).read_text(encoding="utf-8")
