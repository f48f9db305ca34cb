"""Writes the C++ that joins the named ports of one Verilated design to the memory model's arrays."""

import re

from etalstm_sim.compiled.core import is_of_channel
from etalstm_sim.compiled.registered import MODULE

_TOP = f"V{MODULE}"  # Verilator's class

# Verilator renames ports whose names it reserves; these differ between its versions.
_INTERRUPT = """
template <class Top> auto interrupt(const Top& top, int) -> decltype(top.interrupt) { return top.interrupt; }
template <class Top> auto interrupt(const Top& top, long) -> decltype(top.__SYM__interrupt) {
    return top.__SYM__interrupt;
}
"""

# Names in memory.h of a manager's signals; `size`, `burst`, `id` and the write channels may be missing.
_ADDRESS = {"valid": "valid", "addr": "address", "len": "length", "size": "size", "burst": "burst", "id": "id"}
_SHOWN = {f"ar{port}": f"read.{field}" for port, field in _ADDRESS.items()}
_SHOWN |= {f"aw{port}": f"write.{field}" for port, field in _ADDRESS.items()}
_SHOWN |= {"rready": "rready", "wvalid": "wvalid", "wlast": "wlast", "wstrb": "strobe", "bready": "bready"}
_IGNORED = {"wid", *(f"a{channel}{name}" for channel in "rw" for name in ("lock", "cache", "prot", "qos"))}
_DRIVEN = ("arready", "rvalid", "rlast", "rid", "rresp", "awready", "wready", "bvalid", "bid", "bresp")
_CONTROL = ("awaddr", "awvalid", "wdata", "wvalid", "bready", "araddr", "arvalid", "rready")
_ANSWERS = ("awready", "wready", "bresp", "bvalid", "arready", "rdata", "rresp", "rvalid")
_TIED = {"control__wstrb": 0xF, "control__awprot": 0, "control__arprot": 0}

_WAVEFORM_KINDS = {"fst": "Fst", "vcd": "Vcd"}

_NO_WAVEFORM = """struct Waveform {
    template <class Machine> Waveform(Machine&, const char*) {}
    bool opened() { return false; }
    void dump(uint64_t) {}
    void close() {}
    void flush() {}
};"""

_OBSERVED_STRUCT = """
// What a simulator for coverage has seen since it was asked last.
struct Observed {
    uint64_t dispatched = 0;
    bool halted = false;
};
"""

_UNOBSERVED = """inline void observe(const %(top)s&, Observed&) {}
inline void write_coverage(VerilatedContext&, const char*) {}"""

_OBSERVED = """#include <verilated_cov.h>
inline void observe(const %(top)s& top, Observed& seen) {
    seen.dispatched += top.dispatched;
    seen.halted |= top.halted;
}
inline void write_coverage(VerilatedContext& context, const char* path) { context.coveragep()->write(path); }"""

_WAVEFORM = """struct Waveform : Verilated%sC {
    template <class Machine> Waveform(Machine& machine, const char* path) {
        machine.top.contextp()->traceEverOn(true);
        machine.trace(*this);
        open(path);
    }
    bool opened() { return isOpen(); }
};"""


def glue(ports: list[dict], waveform: str | None = None, observed: bool = False) -> str:
    """Give the text of ``glue.h``.

    Parameters
    ----------
    ports : list of dict
        ``name``, ``direction`` and ``width`` of every port, as :func:`etalstm_hw.generate.ports` lists them.
    waveform : "fst", "vcd" or None
        What kind of waveform the build can write.
    observed : bool
        The design has the outputs of :mod:`etalstm_sim.compiled.observed`.

    Raises
    ------
    ValueError
        If the design has a port that the simulation does not know, or lacks one that it needs.
    """
    names = {port["name"]: port for port in ports if not is_of_channel(port["name"])}
    count = 1 + max((int(match[1]) for name in names if (match := re.match(r"port(\d+)__", name))), default=-1)
    width = names["port0__rdata"]["width"] if "port0__rdata" in names else 0
    if width % 8 or not 0 < width <= 512:
        raise ValueError(f"port0__rdata must have 8 to 512 bits, got {width}")
    _check(names, count)
    kind = _WAVEFORM_KINDS.get(waveform) if waveform else None
    tied = [f"    top.{member(name)} = {value};" for name, value in _TIED.items() if name in names]
    control = [
        f"    std::remove_reference_t<decltype({_TOP}::{member(f'control__{name}')})>& {name};"
        for name in (*_CONTROL, *_ANSWERS)
    ]
    references = ", ".join(f"top.{member(f'control__{name}')}" for name in (*_CONTROL, *_ANSWERS))
    drives = [line for n in range(count) for line in _drive(n, names)]
    samples = [line for n in range(count) for line in _sample(n, names)]
    return "\n".join(
        [
            "#pragma once\n#include <cstring>\n#include <memory>\n",
            f'#include "{_TOP}.h"\n#include "memory.h"',
            f"#include <verilated_{waveform}_c.h>" if kind else "",
            f"\nconstexpr unsigned BEAT_BYTES = {width // 8};\nconstexpr unsigned PORTS = {count};",
            f"constexpr uint32_t IDS[] = {{{', '.join(str(_ids(n, names)) for n in range(count))}}};\n",
            _WAVEFORM % kind if kind else _NO_WAVEFORM,
            _OBSERVED_STRUCT,
            (_OBSERVED if observed else _UNOBSERVED) % {"top": _TOP},
            _INTERRUPT,
            "\nstruct Control {",
            *control,
            f"}};\n\ninline Control control_of({_TOP}& top) {{ return {{{references}}}; }}",
            f"\ninline void tie({_TOP}& top) {{",
            *tied,
            f"}}\n\ninline void drive({_TOP}& top, const etalstm::Port* ports) {{",
            *drives,
            f"}}\n\ninline void sample({_TOP}& top, etalstm::Port* ports, bool reset, uint64_t cycle) {{",
            *samples,
            "}\n",
        ]
    )


def member(name: str) -> str:
    """Give a port's name in Verilator's C++, which reserves double underscores."""
    return name.replace("__", "___05F")


def _check(names: dict, count: int):
    """Raise ``ValueError`` for a port that is missing, or that the simulation does not know."""
    driven = {"clk", "rst", *_TIED, *(f"control__{name}" for name in _CONTROL)}
    driven |= {f"port{n}__{name}" for n in range(count) for name in (*_DRIVEN, "rdata")}
    unknown = sorted(name for name, port in names.items() if port["direction"] == "input" and name not in driven)
    if unknown:
        raise ValueError(f"the simulation does not know these inputs of the design: {', '.join(unknown)}")
    needed = {"clk", "rst", "interrupt", *(f"control__{name}" for name in (*_CONTROL, *_ANSWERS))}
    missing = sorted(needed - names.keys())
    if missing:
        raise ValueError(f"the design lacks these ports: {', '.join(missing)}")
    outputs = {f"port{n}__{name}" for n in range(count) for name in (*_SHOWN, *_IGNORED, "wdata")}
    outputs |= {"interrupt", "running", "failed", *(f"control__{name}" for name in _ANSWERS)}
    strange = sorted(name for name, port in names.items() if port["direction"] == "output" and name not in outputs)
    if strange:
        raise ValueError(f"the simulation does not know these outputs of the design: {', '.join(strange)}")


def _ids(number: int, names: dict) -> int:
    """Count the ids of a port; one that has no id signals has the id 0."""
    return 1 << max(names.get(f"port{number}__{name}", {"width": 0})["width"] for name in ("arid", "awid"))


def _drive(number: int, names: dict) -> list[str]:
    lines = [
        f"    top.{member(f'port{number}__{name}')} = ports[{number}].driven.{name};"
        for name in _DRIVEN
        if f"port{number}__{name}" in names
    ]
    if f"port{number}__rdata" in names:
        lines.append(
            f"    std::memcpy(&top.{member(f'port{number}__rdata')}, ports[{number}].driven.data, BEAT_BYTES);"
        )
    return lines


def _sample(number: int, names: dict) -> list[str]:
    present = {field: f"port{number}__{name}" for name, field in _SHOWN.items() if f"port{number}__{name}" in names}
    lines = ["    {", "        etalstm::Shown shown{};"]
    # AXI's values for a channel that leaves them out: whole beats, incrementing, every byte
    for channel in ("read", "write"):
        lines += [f"        shown.{channel}.burst = 1;"] if f"{channel}.burst" not in present else []
        if f"{channel}.size" not in present:
            lines.append(f"        shown.{channel}.size = __builtin_ctz(BEAT_BYTES);")
    lines += ["        shown.strobe = ~0ull;"] if "strobe" not in present else []
    lines += [f"        shown.{field} = top.{member(name)};" for field, name in present.items()]
    if f"port{number}__wdata" in names:
        lines.append(f"        shown.data = reinterpret_cast<const uint8_t*>(&top.{member(f'port{number}__wdata')});")
    return [*lines, f"        ports[{number}].step(shown, reset, cycle);", "    }"]
