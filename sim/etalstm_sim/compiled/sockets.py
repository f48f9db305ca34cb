"""Writes the C++ that joins a core's ports to the channels, which are objects of one compiled class."""

from etalstm_sim.compiled.core import RESET, socket
from etalstm_sim.compiled.glue import member
from etalstm_sim.compiled.registered import MODULE, prefixed

CHANNEL = "socketed"
"""Module around a channel; its C++ class is ``Vsocketed``."""

_PREFIX = "p_"
_TOP, _CLASS = f"V{MODULE}", f"V{CHANNEL}"

_EXCHANGE = """
// Copies a value and says whether that changed it.
template <class Value> bool assign(Value& to, const Value& from) {
    if (std::memcmp(&to, &from, sizeof(Value)) == 0) return false;
    to = from;
    return true;
}
"""


def channel_wrapper(ports: list[dict]) -> str:
    """Give the Verilog of a module :data:`CHANNEL` around a channel with these ports."""
    return prefixed(ports, "channel", CHANNEL, _PREFIX)


def sockets(ports: list[dict], channels: int) -> str:
    """Give the text of ``sockets.h``.

    Parameters
    ----------
    ports : list of dict
        ``name``, ``direction`` and ``width`` of a channel's ports, as :func:`etalstm_hw.generate.ports` lists them.
    channels : int
        How many channels the core has.
    """
    signals = {port["name"]: member(_PREFIX + port["name"]) for port in ports if port["name"] != "clk"}
    directions = {
        direction: [signals[port["name"]] for port in ports if port["direction"] == direction and port["name"] != "clk"]
        for direction in ("input", "output")
    }
    fields = [f"    std::remove_reference_t<decltype({_CLASS}::{signal})>& {signal};" for signal in signals.values()]
    references = [", ".join(f"top.{member(_core_port(name, n))}" for name in signals) for n in range(channels)]
    return "\n".join(
        [
            '#pragma once\n#include <cstring>\n#include <vector>\n\n#include "glue.h"',
            f'#include "{_CLASS}.h"\n',
            f"using Channel = {_CLASS};\nconstexpr unsigned CHANNELS = {channels};",
            _EXCHANGE,
            "// The signals of a core that lead to one channel.\nstruct Socket {",
            *fields,
            "};\n",
            f"inline std::vector<Socket> sockets_of({_TOP}& top) {{\n    return {{",
            *(f"        {{{reference}}}," for reference in references),
            "    };\n}\n",
            "inline void set_clock(Channel& channel, bool high) { channel.p_clk = high; }\n",
            "// Both say whether anything changed.\ninline bool give(const Socket& socket, Channel& channel) {",
            *_assignments("channel", "socket", directions["input"]),
            "}\n\ninline bool take(const Socket& socket, const Channel& channel) {",
            *_assignments("socket", "channel", directions["output"]),
            "}\n",
        ]
    )


def _core_port(name, number):
    """Name the core's port that leads to a channel's port."""
    return RESET if name == "rst" else f"{socket(number)}__{name}"


def _assignments(to, source, signals):
    lines = [f"    changed |= assign({to}.{signal}, {source}.{signal});" for signal in signals]
    return ["    bool changed = false;", *lines, "    return changed;"]
