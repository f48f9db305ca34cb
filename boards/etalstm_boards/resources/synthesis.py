"""Finds Yosys, and maps a unit to the primitives of the part."""

import functools
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from etalstm.errors import ToolchainError
from etalstm.host.cached_build import cached_build
from etalstm_boards.resources.units import Unit

MINIMUM_VERSION = (0, 40)
_SYNTHESIS = "synth_xilinx -family xcup -uram -noiopad -noclkbuf -flatten"
# Yosys packs registers and adders only into the DSP48E1, of whose functions the DSP48E2 lacks none; of the parameters
# that are left, the E2 does not know the switch of the adder before the multiplier.
_PACKING = (
    "chtype -set DSP48E1 t:DSP48E2; xilinx_dsp -family xc7; chtype -set DSP48E2 t:DSP48E1; "
    "setparam -unset USE_DPORT t:DSP48E2"
)
_CACHED = "cells.json 1"  # the cached form of a netlist; count it up when `_reduce` changes
_MODULE_COMMAND = "import sys; from pyosys import libyosys; libyosys.run_pass(sys.argv[2], libyosys.Design())"
_MEMORY = re.compile(r"mapping memory (\S+) via \$__XILINX_(\w+)_$", re.M)
_MEMORY_OF_FLIP_FLOPS = re.compile(r"using FF mapping for memory (\S+)$", re.M)
_OUTPUT_REGISTERS = ("DOA_REG", "DOB_REG", "OREG_A", "OREG_B")
_LOG_LINES = 20


class SynthesisError(ToolchainError):
    """Yosys is missing or failed; the message says what to install, `log` has the log's end."""


@dataclass(frozen=True)
class Cell:
    """A primitive, or a stub of a unit.

    Members
    -------
    type : its name
    inputs, outputs : bits of each port; an int names a net, a str is a constant
    registered : of a block RAM or ultra RAM, whether it has an output register
    name : of the register or memory that it stores, if it stores any
    """

    type: str
    inputs: dict[str, list]
    outputs: dict[str, list]
    registered: bool
    name: str


@dataclass(frozen=True)
class Netlist:
    """A unit as primitives.

    Members
    -------
    inputs, outputs : bits of each port
    cells : the primitives
    memories : for each memory of the unit what it is mapped to: ``URAM``, ``BLOCKRAM_SDP``, ``LUTRAM_SDP`` … or ``FF``
    """

    inputs: dict[str, list]
    outputs: dict[str, list]
    cells: list[Cell]
    memories: dict[str, str]


@functools.cache
def yosys() -> tuple[tuple[str, ...], str]:
    """Give the command of Yosys, to which a script is appended, and its version.

    It is the ``yosys`` on PATH if that is recent enough, else the one of the PyPI package ``pyosys``.

    Raises
    ------
    SynthesisError
        If there is neither.
    """
    if shutil.which("yosys"):
        text = subprocess.run(
            ["yosys", "-V"], capture_output=True, encoding="utf-8", errors="replace", check=False
        ).stdout
        found = re.search(r"Yosys (\d+)\.(\d+)", text)
        if found and tuple(map(int, found.groups())) >= MINIMUM_VERSION:
            return ("yosys", "-q", "-p"), text
    package = importlib.util.find_spec("pyosys")
    if package is None or package.origin is None:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        raise SynthesisError(f"no Yosys {wanted} or later on PATH, nor pyosys. Try: pip install 'etalstm[report]'")
    return (sys.executable, "-c", _MODULE_COMMAND, "-p"), importlib.metadata.version("pyosys")


def synthesise(unit: Unit) -> Netlist:
    """Map a unit to primitives of the UltraScale+ family; results are cached by the unit's text.

    Raises
    ------
    SynthesisError
        If there is no Yosys, or it fails.
    """
    command, version = yosys()

    def build(directory: Path):
        (directory / "unit.v").write_text(unit.text, encoding="utf-8")
        try:
            _run(command, unit.top, directory)
        except SynthesisError:  # abc9 of Yosys 0.70 fails over two names of one net; without names it does not
            _run(command, unit.top, directory, "opt_clean -purge")
        log = (directory / "yosys.log").read_text(encoding="utf-8")
        module = json.loads((directory / "netlist.json").read_text(encoding="utf-8"))["modules"][
            unit.top.removeprefix("\\")
        ]
        (directory / "cells.json").write_text(json.dumps(_reduce(module, log)), encoding="utf-8")
        (directory / "netlist.json").unlink()

    made_from = [unit.text, unit.top, _SYNTHESIS, _PACKING, _CACHED]
    directory, _ = cached_build("synthesis", made_from, build, lambda: version)
    reduced = json.loads((directory / "cells.json").read_text(encoding="utf-8"))
    return Netlist(**reduced | {"cells": [Cell(*cell) for cell in reduced["cells"]]})


def _run(command: Sequence[str], top: str, directory: Path, before_mapping: str = "stat"):
    synthesis = f"{_SYNTHESIS} -top {top}"
    script = [
        "read_verilog unit.v",
        f"tee -q -o yosys.log {synthesis} -run begin:coarse",
        _PACKING,
        f"tee -q -a yosys.log {synthesis} -run coarse:map_luts",
        before_mapping,
        f"tee -q -a yosys.log {synthesis} -run map_luts:",
        "write_json netlist.json",
    ]
    result = subprocess.run(
        [*command, "; ".join(script)],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if result.returncode or not (directory / "netlist.json").exists():
        log = directory / "yosys.log"  # what `tee` has taken from the output
        lines = result.stdout.splitlines() + (log.read_text(encoding="utf-8").splitlines() if log.exists() else [])
        tail = "\n".join(lines[-_LOG_LINES:])
        raise SynthesisError(f"Yosys failed on {top} with exit code {result.returncode}", tail)


def _reduce(module: dict, log: str) -> dict:
    """Give the members of :class:`Netlist` of a netlist in Yosys' JSON."""
    names: dict[int, str] = {}
    for name, net in module["netnames"].items():
        for number, bit in enumerate(net["bits"]):
            if not net["hide_name"]:
                names.setdefault(bit, f"{name}[{number}]" if len(net["bits"]) > 1 else name)
    cells = []
    for name, cell in module["cells"].items():
        if cell["type"] == "$scopeinfo":  # says where a flattened module was
            continue
        sides: dict[str, dict[str, list]] = {"input": {}, "output": {}}
        for port, bits in cell["connections"].items():
            sides[cell["port_directions"][port]][port] = bits
        stored = [names[bit] for bits in sides["output"].values() for bit in bits if bit in names]
        options = [value for key, value in cell["parameters"].items() if key in _OUTPUT_REGISTERS]
        registered = any("1" in option or option == "TRUE" for option in options)
        cells.append([cell["type"], sides["input"], sides["output"], registered, stored[0] if stored else name])
    ports: dict[str, dict[str, list]] = {"input": {}, "output": {}}
    for name, port in module["ports"].items():
        ports[port["direction"]][name] = port["bits"]
    mapped = _MEMORY.findall(log) + [(memory, "FF") for memory in _MEMORY_OF_FLIP_FLOPS.findall(log)]
    memories = {re.sub(r"\$\d+", "", memory): kind for memory, kind in mapped}
    return {"inputs": ports["input"], "outputs": ports["output"], "cells": cells, "memories": memories}
