"""``eta-lstm hw report``: what a machine costs, as Vivado reported it."""

import json
from pathlib import Path
from typing import Annotated

from rich.table import Table
from typer import Option

from etalstm.cli.output import print_table
from etalstm_boards.reports import read_report


def report(
    vivado: Annotated[Path, Option(help="Folder of a build in which Vivado has run")],
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Tell what a machine costs: resources, timing and power of a build, as Vivado reported them."""
    found = read_report(vivado)
    if as_json:
        print(json.dumps(found.as_dict()))
        return
    table = Table("resource", "used", "available", "share", title=f"{found.preset} on {found.board}, {found.build}")
    for kind, usage in found.utilization.items():
        table.add_row(kind, f"{usage.used:,g}", f"{usage.available:,g}", f"{usage.share:.1%}")
    print_table(table)
    print(f"timing {'met' if found.met else 'MISSED'}: worst setup slack {found.wns_ns} ns, hold {found.whs_ns} ns")
    print(f"power on the chip, estimated: {found.power_watts} W")
