"""``eta-lstm plan --benchmark``: named networks, planned as they are on a card."""

import json
import time
from functools import partial

from rich.console import Console
from rich.table import Table

from etalstm.benchmarks import Benchmark
from etalstm.hw.config import Config
from etalstm.hw.config import preset as named_preset
from etalstm.plan.fit import plan_whole
from etalstm.plan.plan import Plan
from etalstm.storage import Storage

GROUPS = 1  # batch groups of a plan


def plan_benchmarks(benchmarks: list[Benchmark], preset: str, storage: str, memory: int | None, as_json: bool) -> None:
    """Plan benchmarks one after the other, and print what each costs: one JSON object a line, or a table.

    Parameters
    ----------
    memory : int or None
        Of the device, in bytes; None: all that the machine can address.
    """
    config = named_preset(preset)
    memory = 1 << config.address_bits if memory is None else memory
    found = []
    for benchmark in benchmarks:
        found.append(costs(benchmark, config, storage, memory))
        if as_json:
            print(json.dumps(found[-1]), flush=True)
    if not as_json:
        show(found, memory)


def costs(benchmark: Benchmark, config: Config, storage: str, memory: int) -> dict:
    """Plan a benchmark.

    Returns
    -------
    dict
        ``benchmark``, ``storage``, ``program_bytes``, ``plan_seconds``, ``memory_bytes``, ``groups``; and
        ``dense_bytes``, what dense storage would take of the memory without programs.
    """
    make = partial(Plan, config, benchmark.network, benchmark.batch, benchmark.steps)
    start = time.perf_counter()
    plan = plan_whole(memory, partial(make, storage=Storage(storage)))
    program_bytes = plan.program_bytes
    seconds = time.perf_counter() - start
    return {
        "benchmark": benchmark.name,
        "storage": storage,
        "program_bytes": program_bytes,
        "plan_seconds": round(seconds, 3),
        "memory_bytes": plan.memory_bytes,
        "groups": GROUPS,
        "dense_bytes": make(storage=Storage("dense")).windows_bytes,
    }


def show(found: list[dict], memory: int) -> None:
    """Print a table, and which benchmarks would not fit the memory with dense storage."""
    table = Table(title=f"Plans with storage {found[0]['storage']}", title_justify="left")
    for number, column in enumerate(("benchmark", "program bytes", "seconds", "memory bytes", "groups")):
        table.add_column(column, justify="right" if number else "left")
    for cost in found:
        table.add_row(
            cost["benchmark"], f"{cost['program_bytes']:,}", f"{cost['plan_seconds']:.2f}",
            f"{cost['memory_bytes']:,}", str(cost["groups"]),
        )  # fmt: skip
    console = Console()
    console.print(table)
    for name, dense_bytes in ((cost["benchmark"], cost["dense_bytes"]) for cost in found):
        if dense_bytes > memory:
            console.print(f"{name}: dense storage would take {dense_bytes:,} bytes, the memory has {memory:,}")
