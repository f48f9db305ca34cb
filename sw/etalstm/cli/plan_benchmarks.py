"""``eta-lstm plan --benchmark``: named networks, planned as they are on a card."""

import json
import time
from dataclasses import replace

from rich.table import Table

from etalstm.cli.planner import Planner, runner_up
from etalstm.cli.tables import print_table
from etalstm.network.benchmarks import Benchmark
from etalstm.plan.plan import Plan


def plan_benchmarks(benchmarks: list[Benchmark], planner: Planner, storage: str, as_json: bool) -> None:
    """Plan benchmarks one after the other, and print what each costs: one JSON object a line, or a table.

    Without a given size of the memory it is all that the machine can address.
    """
    if planner.memory_bytes is None:
        planner = replace(planner, memory_bytes=1 << planner.config.address_bits)
    found = []
    for benchmark in benchmarks:
        found.append(costs(benchmark, planner, storage))
        if as_json:
            print(json.dumps(found[-1]), flush=True)
    if not as_json:
        show(found, planner.memory_bytes)


def costs(benchmark: Benchmark, planner: Planner, storage: str) -> dict:
    """Plan a benchmark.

    Returns
    -------
    dict
        ``benchmark``, ``storage``, ``program_bytes``, ``plan_seconds``, ``memory_bytes``, ``groups``,
        ``slices``; ``step_cycles``, what the products of a step cost by number of groups, fits the memory or not; and
        ``dense_bytes``, what dense storage would take of the memory without programs.
    """
    sizes = benchmark.network, benchmark.batch, benchmark.steps
    start = time.perf_counter()
    plan = planner.plan(*sizes, storage)
    program_bytes = plan.program_bytes
    seconds = time.perf_counter() - start
    return {
        "benchmark": benchmark.name,
        "storage": storage,
        "program_bytes": program_bytes,
        "plan_seconds": round(seconds, 3),
        "memory_bytes": plan.memory_bytes,
        "groups": plan.groups,
        "slices": plan.map.division.slices,
        "step_cycles": planner.alternatives(benchmark.network, benchmark.batch),
        "dense_bytes": Plan(planner.config, *sizes, masked=planner.masked).windows_bytes,
    }


def show(found: list[dict], memory: int) -> None:
    """Print a table, and which benchmarks would not fit the memory with dense storage."""
    table = Table(title=f"Plans with storage {found[0]['storage']}", title_justify="left")
    for number, column in enumerate(
        ("benchmark", "program bytes", "seconds", "memory bytes", "groups", "slices", "runner-up")
    ):
        table.add_column(column, justify="right" if number else "left")
    for cost in found:
        other = runner_up(cost["groups"], cost["step_cycles"])
        table.add_row(
            cost["benchmark"], f"{cost['program_bytes']:,}", f"{cost['plan_seconds']:.2f}",
            f"{cost['memory_bytes']:,}", str(cost["groups"]), str(cost["slices"]),
            f"{other}: × {cost['step_cycles'][other] / cost['step_cycles'][cost['groups']]:.3f}" if other else "",
        )  # fmt: skip
    print_table(table)
    for name, dense_bytes in ((cost["benchmark"], cost["dense_bytes"]) for cost in found):
        if dense_bytes > memory:
            print(f"{name}: dense storage would take {dense_bytes:,} bytes, the memory has {memory:,}")
