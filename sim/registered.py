"""Verilog around a design that registers its inputs, so that a cycle of the simulation settles once.

Inputs that change between two edges would have the logic behind them settle twice more: when they are shown, and again
before the edge. The registers take the inputs with the edge that begins their cycle, which costs no cycle.
"""

from collections.abc import Callable

MODULE = "registered"


def registered(ports: list[dict], design: str, direct: Callable[[str], bool] = lambda _: False) -> str:
    """Give the text of a module :data:`MODULE` with the ports of the design that it holds.

    Parameters
    ----------
    ports : list of dict
        ``name``, ``direction`` and ``width`` of every port, as :func:`etalstm.hw.generate.ports` lists them; ``clk`` is
        the clock of all.
    design : str
        Name of the design's module.
    direct : function
        Whether a port, by its name, is connected without a register.
    """
    inputs = [port for port in ports if port["direction"] == "input" and port["name"] != "clk"]
    taken = {port["name"]: port for port in inputs if not direct(port["name"])}
    registers = [f"    reg {_width(port)}{name}_taken;" for name, port in taken.items()]
    assignments = [f"        {name}_taken <= {name};" for name in taken]
    return _module(
        MODULE,
        {port["name"]: port for port in ports},
        [*registers, "    always @(posedge clk) begin", *assignments, "    end"],
        design,
        {port["name"]: f"{port['name']}_taken" if port["name"] in taken else port["name"] for port in ports},
    )


def prefixed(ports: list[dict], design: str, module: str, prefix: str) -> str:
    """Give the text of a module around a design, whose ports it has with a prefix in their names.

    Without one Verilator renames ports whose names mean something in C++, like ``abort``.
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
