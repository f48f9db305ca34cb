"""The C++ beside the Verilog: what drives a Verilated design, its memory, the AXI checker. The files are in sim/cpp."""

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "cpp"


def cpp_source(name: str) -> str:
    """Give the text of a file, by its name."""
    return (FOLDER / name).read_text()
