"""``eta-lstm plan --benchmark``: named networks, planned as they are on a card."""

import json
import time

from rich.table import Table

from etalstm.cli.tables import print_table
from etalstm.network.benchmarks import Benchmark
from etalstm.network.execution import Execution
from etalstm.plan.choose.fit import alternatives, plan_at_density, runner_up
from etalstm.plan.plan import Plan
from etalstm_hw.config import Config


def plan_benchmarks(
    benchmarks: list[Benchmark], config: Config, execution: Execution, options: dict, as_json: bool
) -> None:
    """Plan benchmarks one after the other, and print what each costs: one JSON object a line, or a table.

    Parameters
    ----------
    options : dict
        Of :func:`etalstm.plan.choose.fit.plan_at_density`. Without `memory_bytes` these are all that the machine can
        address.
    """
    if options["memory_bytes"] is None:
        options |= {"memory_bytes": 1 << config.address_bits}
    found = []
    for benchmark in benchmarks:
        found.append(costs(benchmark, config, execution, options))
        if as_json:
            print(json.dumps(found[-1]), flush=True)
    if not as_json:
        show(found, options["memory_bytes"])


def costs(benchmark: Benchmark, config: Config, execution: Execution, options: dict) -> dict:
    """Plan a benchmark.

    Returns
    -------
    dict
        ``benchmark``, ``storage``, ``program_bytes``, ``plan_seconds``, ``memory_bytes``, ``groups``,
        ``slices``; ``step_cycles``, what the products of a step cost by number of groups, fits the memory or not; and
        ``dense_bytes``, what dense storage would take of the memory without programs.
    """
    sizes, choose_slices = (benchmark.network, benchmark.batch, benchmark.steps), options["choose_slices"]
    start = time.perf_counter()
    plan = plan_at_density(config, *sizes, execution, **options)
    program_bytes = plan.program_bytes
    seconds = time.perf_counter() - start
    return {
        "benchmark": benchmark.name,
        "storage": execution.storage.policy,
        "program_bytes": program_bytes,
        "plan_seconds": round(seconds, 3),
        "memory_bytes": plan.memory_bytes,
        "groups": plan.groups,
        "slices": plan.map.division.slices,
        "step_cycles": alternatives(config, *sizes[:2], execution, choose_slices=choose_slices),
        "dense_bytes": Plan(config, *sizes, masked=options["masked"]).windows_bytes,
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
