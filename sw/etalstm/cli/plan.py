"""``eta-lstm plan``: what a network costs on a machine, before anything runs."""

import json
from dataclasses import asdict
from typing import Annotated

from rich.table import Table
from typer import Context, Option

from etalstm.cli.options import (
    SIZES,
    Batch,
    CellName,
    InputSize,
    InputThreshold,
    Layers,
    Memory,
    MemoryBudget,
    PresetName,
    Refresh,
    SharedTokens,
    Steps,
    UnequalLengths,
    Units,
    WeightFormat,
    refuse,
)
from etalstm.cli.plan_benchmarks import plan_benchmarks
from etalstm.cli.tables import print_table
from etalstm.network.benchmarks import STORAGE, named
from etalstm.network.cells.lstm import LSTM
from etalstm.network.execution import FLOAT32, SLICES_HELP, Execution, slices_or_auto
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.slices import AUTO
from etalstm.network.storage import DENSE, POLICIES
from etalstm.plan.choose.fit import alternatives, plan_at_density, runner_up
from etalstm.plan.memory.placement import Placement
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import disassemble as lines_of
from etalstm_hw.config import preset as named_preset


def plan(
    context: Context,
    preset: PresetName = "sim",
    inputs: InputSize = 8,
    hidden: Units = 32,
    layers: Layers = 1,
    cell: CellName = LSTM.name,
    batch: Batch = 32,
    steps: Steps = 8,
    lengths: UnequalLengths = False,
    benchmark: Annotated[
        str | None, Option(help="Sizes of a named network in the place of --input to --steps; all: of each of them")
    ] = None,
    storage: Annotated[
        str | None,
        Option(help="What cells keep: dense (default), ms1, ms1-bf16 (default of a benchmark), or all to compare them"),
    ] = None,
    density: Annotated[float, Option(help="Share of local gradients and of δ that compressed streams keep")] = 1.0,
    slices: Annotated[
        str | None,
        Option(help=f"{SLICES_HELP}; auto: as many as the machine uses best (default of a benchmark; else 1)"),
    ] = None,
    weight_format: WeightFormat = FLOAT32,
    shared_tokens: SharedTokens = "off",
    input_threshold: InputThreshold = "0",
    refresh: Refresh = None,
    memory: Memory = None,
    memory_budget: MemoryBudget = None,
    disassemble: Annotated[bool, Option("--disassemble", help="Print the programs as text")] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Show the memory footprint, the traffic of an iteration and the programs of a network."""
    for name, size in (("batch", batch), ("steps", steps)):
        check_size(name, size)
    if not 0 <= density <= 1:
        raise ValueError(f"density must be 0 to 1, got {density}")
    if memory_budget is not None:
        check_size("memory_budget", memory_budget)
    if disassemble:
        refuse(context, "not used where programs are printed as text", "as_json", "density")
    if benchmark is not None:
        refuse(context, "not used with --benchmark, which has sizes of its own", *SIZES)
    wanted = slices_or_auto(slices or ("1" if benchmark is None else AUTO))
    choose_slices = wanted == AUTO
    choices = {"slices": 1 if choose_slices else wanted, "input_threshold": input_threshold, "refresh": refresh}
    choices |= {"weight_format": weight_format, "shared_tokens": shared_tokens}
    config, options = named_preset(preset), {"masked": lengths, "density": density, "choose_slices": choose_slices}
    options |= {"memory_bytes": memory, "memory_budget": memory_budget}
    if benchmark is not None:
        if disassemble or storage == "all":
            raise ValueError("--benchmark does not go together with --disassemble or --storage all")
        execution = Execution.read(storage=storage or STORAGE, **choices)
        return plan_benchmarks(named(benchmark), config, execution, options, as_json)
    network = NetworkShape(inputs, hidden, layers, cell)

    def planned(policy):
        return plan_at_density(config, network, batch, steps, Execution.read(storage=policy, **choices), **options)

    if storage == "all":
        refuse(context, "not used with --storage all, which compares plans", "disassemble")
        return show_policies({policy: planned(policy) for policy in POLICIES}, as_json)
    chosen = planned(storage or DENSE)
    step_cycles = alternatives(config, network, batch, Execution.read(**choices), choose_slices=choose_slices)
    if disassemble:
        for name, program in chosen.programs.items():
            print(f"{name}:")
            for line in lines_of(program.words):
                print(line)
        return None
    return show(chosen, step_cycles, as_json)


def show(planned: Plan, step_cycles: dict[int, float], as_json: bool) -> None:
    """Print one plan, and what other numbers of groups would cost: the cycles of a step's products."""
    footprint, traffic, placement = planned.footprint(), planned.traffic(), planned.place()
    instructions = {name: len(program.words) for name, program in planned.programs.items()}
    if as_json:
        costs = {"footprint": footprint, "traffic": traffic, "instructions": instructions}
        costs |= {"segments": len(planned.map.kept.held), "placement": asdict(placement)}
        costs |= {"groups": planned.groups, "slices": planned.map.division.slices}
        costs |= {"step_cycles": step_cycles, "batch_tiles": planned.map.batch.count}
        print(json.dumps(costs | {"spareable_bytes": planned.spareable_bytes}))
        return
    print_table(_table("Memory", ["kind", "bytes"], [*footprint.items(), ("total", sum(footprint.values()))]))
    moved = [(kind, bytes_of["read"], bytes_of["written"]) for kind, bytes_of in traffic.items()]
    print_table(_table("Traffic of an iteration", ["kind", "bytes read", "bytes written"], moved))
    if planned.spareable_bytes:
        print(f"Weights that are read at most, if their rows are needed: {planned.spareable_bytes:,} bytes")
    print_table(_table("Programs", ["name", "instructions"], instructions.items()))
    print(where(placement, planned.config.port_bytes))
    if planned.groups > 1:
        print(f"{planned.groups} groups of channels, each works on its own part of the batch.")
    if other := runner_up(planned.groups, step_cycles):
        cycles, others = step_cycles[planned.groups], step_cycles[other]
        print(f"The products of a step take about {cycles:,} cycles; in {other} groups, the runner-up, {others:,}.")
    tiles = planned.map.batch
    print(f"Batch tiles of a group: {tiles.count} of up to {tiles.size} sequences. Memories and slices allow no fewer.")
    print("Weights that do not stay in the lanes are loaded for each tile.")


def where(placement: Placement, port_bytes: int) -> str:
    """Say where windows and programs lie in a memory that has nothing else in it."""
    windows = f"{placement.channels} windows of {placement.window_bytes:,} bytes"
    if placement.stride == placement.window_bytes:
        return f"{windows}, one behind the other, then the programs, from address {placement.programs:#x} on."
    return (
        f"{windows}, {port_bytes // placement.stride} behind each memory port, {placement.stride:#x} from one to the "
        f"next; the programs from address {placement.programs:#x} on."
    )


def show_policies(plans: dict[str, Plan], as_json: bool) -> None:
    """Print what the storage policies cost, beside each other."""
    costs = {name: {"footprint": plan.footprint(), "traffic": plan.traffic()} for name, plan in plans.items()}
    if as_json:
        print(json.dumps({"policies": costs}))
        return
    columns = []
    for cost in costs.values():
        footprint, kinds = cost["footprint"], [cost["traffic"][kind] for kind in ("intermediates", "deltas")]
        moved = [sum(kind[way] for kind in kinds) for way in ("read", "written")]
        columns.append((footprint["intermediates"], footprint["deltas"], sum(footprint.values()), *moved))
    names = ["intermediates", "deltas", "all memory", "read", "written"]
    rows = zip(names, *columns, strict=True)
    print_table(
        _table("Bytes of memory, and of intermediates and deltas that an iteration moves", ["storage", *costs], rows)
    )


def _table(title, columns, rows) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(row[0], *(f"{value:,}" for value in row[1:]))
    return table
