"""``eta-lstm plan``: what a network costs on a machine, before anything runs, and whether the machine takes it."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from typer import Context, Option

from etalstm.cli import options
from etalstm.cli.declared import with_settings
from etalstm.cli.options import refuse
from etalstm.cli.output import print_rows
from etalstm.cli.work import CHOICES, PANELS, SIZES, Work
from etalstm.network.benchmarks import STORAGE, Benchmark, named
from etalstm.network.execution import SLICES_HELP, STORAGE_HELP, Execution
from etalstm.network.shape import check_size, check_sizes
from etalstm.network.slices import AUTO
from etalstm.network.storage import DENSE, POLICIES
from etalstm.plan.choose.fit import alternatives, plan_at_density, runner_up
from etalstm.plan.memory.memory_map import Placement
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import disassemble as lines_of
from etalstm_hw.config import Config
from etalstm_hw.config import preset as named_preset
from etalstm_hw.contract import Status
from etalstm_sim.checks.control import Refusal
from etalstm_sim.checks.model import Ending, Model
from etalstm_sim.checks.refusals import Sizes

MOST_STEPS = 10_000_000  # executed instructions of a program that are checked: some seconds

PLANNED = f"{SIZES} lengths preset {CHOICES} memory memory_budget"

_WHY = {
    Status.BAD_ADDRESS: "the data decide which addresses of a MAC, a PRODUCT or a LOAD_ROWS are used",
    Status.BAD_STREAM: "other data may lie where a stream is read",
    Status.OVERFLOW: "the data decide how much of a stream is dropped, and its log may have too little room",
    Status.STUCK: "its engines may wait for each other",
}
"""By status, why the model cannot tell whether a program ends with it; docs/trust.md has the same table."""


@with_settings(Work, PANELS, PLANNED)
def plan(
    context: Context,
    benchmark: Annotated[
        str | None, Option(help="Sizes of a named network in the place of --input to --steps; all: of each of them")
    ] = None,
    storage: Annotated[
        str | None,
        Option(help=f"{STORAGE_HELP}; all: compare them [default: {DENSE}, of a benchmark {STORAGE}]"),
    ] = None,
    density: Annotated[float, Option(help="Share of local gradients and of δ that compressed streams keep")] = 1.0,
    slices: Annotated[
        str | None,
        Option(help=f"{SLICES_HELP}; auto: as many as the machine uses best (default of a benchmark; else 1)"),
    ] = None,
    disassemble: Annotated[bool, Option("--disassemble", help="Print the programs as text")] = False,
    as_json: options.AsJson = False,
    **of_work: Any,
) -> None:
    """Show the memory footprint, the traffic of an iteration and the programs of a network."""
    work = Work(slices=slices or ("1" if benchmark is None else AUTO), **of_work)
    if not 0 <= density <= 1:
        raise ValueError(f"density must be 0 to 1, got {density}")
    plan_options = _plan_options(work) | {"density": density}
    if disassemble:
        refuse(context, "not used where programs are printed as text", "as_json", "density")
    if benchmark is not None:
        refuse(context, "not used with --benchmark, which has sizes of its own", *SIZES.split())
    config = named_preset(work.preset)
    if benchmark is not None:
        if disassemble or storage == "all":
            raise ValueError("--benchmark does not go together with --disassemble or --storage all")
        return plan_benchmarks(named(benchmark), config, work.execution(storage or STORAGE), plan_options, as_json)

    def planned(policy: str) -> Plan:
        return plan_at_density(config, *work.sizes, work.execution(policy), **plan_options)

    if storage == "all":
        refuse(context, "not used with --storage all, which compares plans", "disassemble")
        return show_policies({policy: planned(policy) for policy in POLICIES}, as_json)
    found = planned(storage or DENSE)
    step_cycles = alternatives(config, work.network, work.batch, work.execution(), choose_slices=work.choose_slices)
    if not disassemble:
        return show(found, step_cycles, as_json)
    for name, program in found.programs.items():
        print(f"{name}:", *lines_of(program.words, found.map.place_of), sep="\n")
    return None


def show(planned: Plan, step_cycles: dict[int, float], as_json: bool) -> None:
    """Print one plan, and the cycles that a step's products would take in other numbers of groups."""
    footprint, traffic, placement = planned.footprint(), planned.traffic(), planned.place()
    assert placement is not None  # nothing else is in the memory
    instructions = {name: len(program.words) for name, program in planned.programs.items()}
    if as_json:
        costs = {"footprint": footprint, "traffic": traffic, "instructions": instructions}
        costs |= {"segments": len(planned.map.stored.segments), "placement": asdict(placement)}
        costs |= {"groups": planned.groups, "slices": planned.map.division.slices}
        costs |= {"step_cycles": step_cycles, "batch_tiles": planned.map.batch.count}
        print(json.dumps(costs | {"spareable_bytes": planned.spareable_bytes}))
        return
    _print_numbers("Memory", ["kind", "bytes"], [*footprint.items(), ("total", sum(footprint.values()))])
    moved = [(kind, bytes_of["read"], bytes_of["written"]) for kind, bytes_of in traffic.items()]
    _print_numbers("Traffic of an iteration", ["kind", "bytes read", "bytes written"], moved)
    if planned.spareable_bytes:
        print(f"Weights that are read at most, if their rows are needed: {planned.spareable_bytes:,} bytes")
    _print_numbers("Programs", ["name", "instructions"], instructions.items())
    print(placement_text(placement, planned.config.port_bytes))
    if planned.groups > 1:
        print(f"{planned.groups} groups of channels, each works on its own part of the batch.")
    if other := runner_up(planned.groups, step_cycles):
        cycles, others = step_cycles[planned.groups], step_cycles[other]
        print(f"The products of a step take about {cycles:,} cycles; in {other} groups, the runner-up, {others:,}.")
    tiles = planned.map.batch
    print(f"Batch tiles of a group: {tiles.count} of up to {tiles.size} sequences. Memories and slices allow no fewer.")
    print("Weights that do not stay in the lanes are loaded for each tile.")


def placement_text(placement: Placement, port_bytes: int) -> str:
    """Write at which addresses windows and programs lie in a memory that has nothing else in it."""
    windows = f"{placement.channels} windows of {placement.window_bytes:,} bytes"
    if placement.stride == placement.window_bytes:
        return f"{windows}, one behind the other, then the programs, from address {placement.programs:#x} on."
    return (
        f"{windows}, {port_bytes // placement.stride} behind each memory port, {placement.stride:#x} from one to the "
        f"next; the programs from address {placement.programs:#x} on."
    )


def show_policies(plans: dict[str, Plan], as_json: bool) -> None:
    """Print what the storage policies cost, beside each other."""
    footprints = {name: plan.footprint() for name, plan in plans.items()}
    traffics = {name: plan.traffic() for name, plan in plans.items()}
    if as_json:
        costs = {name: {"footprint": footprints[name], "traffic": traffics[name]} for name in plans}
        print(json.dumps({"policies": costs}))
        return
    columns = []
    for name, footprint in footprints.items():
        moved = [sum(traffics[name][kind][way] for kind in ("intermediates", "deltas")) for way in ("read", "written")]
        columns.append((footprint["intermediates"], footprint["deltas"], sum(footprint.values()), *moved))
    rows = zip(["intermediates", "deltas", "all memory", "read", "written"], *columns, strict=True)
    title = "Bytes of memory, and of intermediates and deltas that an iteration moves"
    _print_numbers(title, ["storage", *plans], rows)


def _print_numbers(title, columns, rows) -> None:
    print_rows(title, columns, ((name, *(f"{value:,}" for value in values)) for name, *values in rows))


def plan_benchmarks(
    benchmarks: list[Benchmark], config: Config, execution: Execution, plan_options: dict, as_json: bool
) -> None:
    """Plan benchmarks one after the other, and print what each costs: one JSON object a line, or a table.

    `plan_options`: of :func:`etalstm.plan.choose.fit.plan_at_density`. Without `memory_bytes` the memory is all that
    the machine can address.
    """
    if plan_options["memory_bytes"] is None:
        plan_options |= {"memory_bytes": 1 << config.address_bits}
    found = []
    for benchmark in benchmarks:
        found.append(costs(benchmark, config, execution, plan_options))
        if as_json:
            print(json.dumps(found[-1]), flush=True)
    if not as_json:
        _show_benchmarks(found, plan_options["memory_bytes"])


def costs(benchmark: Benchmark, config: Config, execution: Execution, plan_options: dict) -> dict:
    """Plan a benchmark, and give what the plan costs.

    Gives a dict: ``benchmark``, ``storage``, ``program_bytes``, ``plan_seconds``, ``memory_bytes``, ``groups``,
    ``slices``; ``step_cycles``: cycles of a step's products by number of groups, whether it fits the memory or not; and
    ``dense_bytes``: memory that dense storage would take, without programs.
    """
    sizes, choose_slices = (benchmark.network, benchmark.batch, benchmark.steps), plan_options["choose_slices"]
    start = time.perf_counter()
    plan = plan_at_density(config, *sizes, execution, **plan_options)
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
        "dense_bytes": Plan(config, *sizes, masked=plan_options["masked"]).windows_bytes,
    }


def _show_benchmarks(found: list[dict], memory: int) -> None:
    """Print a table, and which benchmarks would not fit the memory with dense storage."""
    rows = []
    for cost in found:
        other, cycles = runner_up(cost["groups"], cost["step_cycles"]), cost["step_cycles"]
        rows.append((
            cost["benchmark"], f"{cost['program_bytes']:,}", f"{cost['plan_seconds']:.2f}",
            f"{cost['memory_bytes']:,}", str(cost["groups"]), str(cost["slices"]),
            f"{other}: × {cycles[other] / cycles[cost['groups']]:.3f}" if other else "",
        ))  # fmt: skip
    columns = "benchmark", "program bytes", "seconds", "memory bytes", "groups", "slices", "runner-up"
    print_rows(f"Plans with storage {found[0]['storage']}", columns, rows)
    for cost in found:
        if cost["dense_bytes"] > memory:
            name, needed = cost["benchmark"], cost["dense_bytes"]
            print(f"{name}: dense storage would take {needed:,} bytes, the memory has {memory:,}")


@with_settings(Work, PANELS, f"slices {PLANNED}")
def check(storage: Annotated[str, Option(help=STORAGE_HELP)] = DENSE, **of_work: Any) -> None:
    """Tell how each program of a plan ends, by a model of the machine's checks; exit code 1 unless all are DONE."""
    work = Work(**of_work)
    config, plan_options = named_preset(work.preset), _plan_options(work) | {"density": 1.0}
    check_programs(plan_at_density(config, *work.sizes, work.execution(storage), **plan_options))


def _plan_options(work: Work) -> dict[str, Any]:
    """Give the options of :func:`etalstm.plan.choose.fit.plan_at_density`; ``ValueError`` if a size is below 1."""
    check_sizes(batch=work.batch, steps=work.steps)
    if work.memory_budget is not None:
        check_size("memory_budget", work.memory_budget)
    return {
        "masked": work.lengths, "choose_slices": work.choose_slices, "memory_bytes": work.memory,
        "memory_budget": work.memory_budget,
    }  # fmt: skip


def check_programs(planned: Plan) -> None:
    """Print how each program ends, in the order of an iteration.

    The exit code is 0 only if every program is certain to end with DONE. It is 1 if the machine refuses a program, if a
    program may end otherwise than with DONE, and if a program is too long to be checked to its end. In the last two
    cases a line says why.

    Segments share memory, and their backward passes run from the last segment to the first. On a machine the host
    brings back the streams of a segment. Here the segment's forward pass runs again, which writes the same streams.
    """
    config, programs, certain = planned.config, planned.programs, True
    model = Model(Sizes(config, planned.map.memory.window_bytes // config.beat_bytes, planned.groups), MOST_STEPS)
    backward = [name for name in programs if name.startswith("backward")]
    forward = [name for name in programs if name.startswith("forward")]
    others = [name for name in programs if name not in (*forward, *backward)]
    for name in (*forward, *reversed(backward), *others):
        if name in backward and len(forward) == len(backward):
            model.run(programs[forward[backward.index(name)]].words)
        ending = model.run(programs[name].words)
        certain &= ending.promised == Status.DONE
        print(f"{name}: {_text(ending)}")
        for doubt in _doubts(ending):
            print(f"  {doubt}")
    if not certain:
        raise typer.Exit(1)


def _text(ending: Ending) -> str:
    """Write how a program ends: its refusals, then other statuses that are possible, then where the model gave up."""
    refusals = sorted(ending.refusals, key=lambda refusal: (refusal.number, refusal.status))
    ends = [_refusal_text(refusal) for refusal in refusals]
    if not refusals and not ending.is_cut:
        ends.append(Status.DONE.name)
    texts = [" or ".join(ends), *(f"possibly {status.name}" for status in _without_refusal(ending))]
    if ending.is_cut:
        texts.append(f"after {MOST_STEPS:,} instructions: not known")
    return ", ".join(filter(None, texts))


def _refusal_text(refusal: Refusal) -> str:
    engine = "the sequencer" if refusal.engine is None else refusal.engine.name
    return f"{refusal.status.name} at instruction {refusal.number} by {engine}"


def _without_refusal(ending: Ending) -> list[Status]:
    """Give the possible statuses that are not those of a refusal."""
    return sorted(ending.possible - {refusal.status for refusal in ending.refusals})


def _doubts(ending: Ending) -> Iterator[str]:
    """Say why it is not certain how a program ends."""
    for status in _without_refusal(ending):
        yield f"{status.name} is possible: {_WHY[status]}"
    if ending.is_cut:
        yield f"not certain: the program executes more than {MOST_STEPS:,} instructions, and no more are looked at"
