"""``eta-lstm plan``: what a network costs on a machine, before anything runs."""

import json
from typing import Annotated

from rich.console import Console
from rich.table import Table
from typer import Option

from etalstm.hw.config import preset as named_preset
from etalstm.network import NetworkShape, check_size
from etalstm.plan.plan import Plan
from etalstm.plan.program import disassemble as lines_of


def plan(
    preset: Annotated[str, Option(help="Configuration of the accelerator")] = "sim",
    inputs: Annotated[int, Option("--input", help="Inputs")] = 8,
    hidden: Annotated[int, Option(help="Units of a layer")] = 32,
    layers: Annotated[int, Option(help="LSTM layers")] = 1,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 8,
    lengths: Annotated[bool, Option("--unequal-lengths", help="Plan for sequences shorter than the steps")] = False,
    memory: Annotated[int | None, Option(help="Memory of the device in bytes; fails if it is too small")] = None,
    disassemble: Annotated[bool, Option("--disassemble", help="Print the programs as text")] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Show the memory footprint, the traffic of an iteration and the programs of a network."""
    network = NetworkShape(inputs, hidden, layers)
    for name, size in (("batch", batch), ("steps", steps)):
        check_size(name, size)
    planned = Plan(named_preset(preset), network, batch, steps, masked=lengths, memory_bytes=memory)
    if disassemble:
        for name, program in planned.programs.items():
            print(f"{name}:")
            for line in lines_of(program.words):
                print(line)
        return
    footprint, traffic = planned.footprint(), planned.traffic()
    instructions = {name: len(program.words) for name, program in planned.programs.items()}
    if as_json:
        print(json.dumps({"footprint": footprint, "traffic": traffic, "instructions": instructions}))
        return
    console = Console()
    console.print(_table("Memory", ["kind", "bytes"], [*footprint.items(), ("total", sum(footprint.values()))]))
    moved = [(kind, bytes_of["read"], bytes_of["written"]) for kind, bytes_of in traffic.items()]
    console.print(_table("Traffic of an iteration", ["kind", "bytes read", "bytes written"], moved))
    console.print(_table("Programs", ["name", "instructions"], instructions.items()))


def _table(title, columns, rows) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(row[0], *(f"{value:,}" for value in row[1:]))
    return table
