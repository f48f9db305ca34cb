"""Verilog around a design that registers its inputs, so that a cycle of the simulation settles once.

Inputs that change between two edges would have the logic behind them settle twice more: when they are shown, and again
before the edge. The registers take the inputs with the edge that begins their cycle, which costs no cycle.
"""

MODULE = "registered"


def registered(ports: list[dict], design: str) -> str:
    """Give the text of a module :data:`MODULE` with the ports of the design that it holds.

    Parameters
    ----------
    ports : list of dict
        ``name``, ``direction`` and ``width`` of every port, as :func:`etalstm.hw.generate.ports` lists them; ``clk`` is
        the clock of all.
    design : str
        Name of the design's module.
    """
    inputs = [port["name"] for port in ports if port["direction"] == "input" and port["name"] != "clk"]
    width = {port["name"]: f"[{port['width'] - 1}:0] " if port["width"] > 1 else "" for port in ports}
    header = ",\n".join(f"    {port['direction']} {width[port['name']]}{port['name']}" for port in ports)
    connections = ",\n".join(
        f"        .{port['name']}({port['name']}{'_taken' if port['name'] in inputs else ''})" for port in ports
    )
    return "\n".join(
        [
            f"module {MODULE} (\n{header}\n);",
            *(f"    reg {width[name]}{name}_taken;" for name in inputs),
            "    always @(posedge clk) begin",
            *(f"        {name}_taken <= {name};" for name in inputs),
            "    end",
            f"    {design} {design} (\n{connections}\n    );\nendmodule\n",
        ]
    )
