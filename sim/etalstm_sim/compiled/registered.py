"""Verilog around a design that registers its inputs, so that a cycle of the simulation settles once.

If inputs changed between two edges, the logic behind them would settle twice more: when they change, and again before
the edge. The registers take the inputs with the edge that begins their cycle. That costs no cycle.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

MODULE = "registered"


def registered(
    ports: list[dict],
    design: str,
    direct: Callable[[str], bool] = lambda _: False,
    shown: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Give the text of a module :data:`MODULE` with the ports of the design that it holds.

    Parameters
    ----------
    ports : list of dict
        ``name``, ``direction`` and ``width`` of every port, as :func:`etalstm_hw.generate.ports` lists them; ``clk`` is
        the clock of all.
    design : str
        Name of the design's module.
    direct : function
        Tells whether a port, by its name, is connected without a register.
    shown : mapping of str to str
        Further outputs of one bit, by name, with their expressions inside the design.
    """
    inputs = [port for port in ports if port["direction"] == "input" and port["name"] != "clk"]
    taken = {port["name"]: port for port in inputs if not direct(port["name"])}
    registers = [f"    reg {_width(port)}{name}_taken;" for name, port in taken.items()]
    assignments = [f"        {name}_taken <= {name};" for name in taken]
    outputs = [f"    assign {name} = {inside};" for name, inside in shown.items()]
    return _module(
        MODULE,
        {port["name"]: port for port in ports} | {name: {"direction": "output", "width": 1} for name in shown},
        [*registers, "    always @(posedge clk) begin", *assignments, "    end", *outputs],
        design,
        {port["name"]: f"{port['name']}_taken" if port["name"] in taken else port["name"] for port in ports},
    )


def prefixed(ports: list[dict], design: str, module: str, prefix: str) -> str:
    """Give the text of a module around a design, whose ports it has with a prefix in their names.

    Without one Verilator renames ports whose names mean something in C++.
    """
    names = {port["name"]: f"{prefix}{port['name']}" for port in ports}
    return _module(module, {names[port["name"]]: port for port in ports}, [], design, names)


def _width(port):
    return f"[{port['width'] - 1}:0] " if port["width"] > 1 else ""


def _module(name, ports, body, design, connections):
    """Write a module with these ports, its body, and an instance of the design, whose ports lead to `connections`."""
    header = ",\n".join(f"    {port['direction']} {_width(port)}{port_name}" for port_name, port in ports.items())
    instance = ",\n".join(f"        .{port}({signal})" for port, signal in connections.items())
    lines = [f"module {name} (\n{header}\n);", *body, f"    {design} {design} (\n{instance}\n    );\nendmodule\n"]
    return "\n".join(lines)
