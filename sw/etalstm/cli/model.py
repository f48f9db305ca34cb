"""``eta-lstm model``: how many cycles an iteration takes, without a machine; ``trace``: its timeline for a browser."""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import repeat, starmap
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from typer import Context, Option

import etalstm.model
from etalstm.cli.declared import with_settings
from etalstm.cli.options import refuse
from etalstm.cli.output import announce_compilation
from etalstm.cli.work import PANELS, SIZES, Work
from etalstm.host.computer import count_processors
from etalstm.host.durable import write_whole
from etalstm.model.across import Across
from etalstm.model.boards import PCIE_BYTES, Links
from etalstm.model.measured import Shares, measure_all, plan_modelled, read_kept, sending
from etalstm.model.operands import Densities
from etalstm.model.timeline import follow_program
from etalstm.network.arithmetic import FLOAT32
from etalstm.network.benchmarks import STORAGE, named
from etalstm.network.execution import STORAGE_HELP
from etalstm.network.shape import NetworkShape, check_sizes
from etalstm.network.slices import AUTO
from etalstm.train.measured import measure_run
from etalstm_hw.config import Config
from etalstm_hw.config import preset as named_preset
from etalstm_hw.contract import Engine, Memory, Opcode, Traffic, VectorOp


class Modelled(NamedTuple):
    """An iteration to model, and which share of a V100's peak it reaches, where that is published."""

    name: str
    network: NetworkShape
    batch: int
    steps: int
    v100_utilization: float | None = None


CHOICES_MODELLED = "weight_format arithmetic delta_bits shared_tokens"
TRACED = "hidden layers batch steps preset architecture slices"
InputSize = Annotated[int | None, Option("--input", help="Inputs [default: as many as units]")]
DENSITIES = ("density", "local_density", "input_density", "digits")


@with_settings(Work, PANELS, f"cell {CHOICES_MODELLED} {TRACED}", preset="vcu128", hidden=256, slices=AUTO)
def model(
    context: Context,
    benchmark: Annotated[
        str | None, Option(help="Named networks, with commas between, or all; instead of the sizes")
    ] = None,
    inputs: InputSize = None,
    storage: Annotated[str, Option(help=STORAGE_HELP)] = STORAGE,
    density: Annotated[float, Option(help="Share of δ that is not zero, in the cells that are kept")] = 1.0,
    local_density: Annotated[float, Option(help="Share of local gradients that is not zero, in these cells")] = 1.0,
    kept_cells: Annotated[
        str, Option(help="Share of the steps, the last ones, that keep anything and have a backward pass; or by layer")
    ] = "1",
    input_density: Annotated[
        float, Option(help="Share of x and h that is sent; without integers at steps other than refresh steps")
    ] = 1.0,
    digits: Annotated[
        float | None,
        Option(help="With integers: digits that are not zero, of each element of δ [default: two for each --density]"),
    ] = None,
    refresh: Annotated[int, Option(help="With --input-density: everything is sent every so many steps; 0: once")] = 0,
    mean_length: Annotated[
        float | None,
        Option(help="Steps of a sequence in the mean, the rest of a batch's steps being padding [default: all]"),
    ] = None,
    weights: Annotated[
        Path | None, Option(help="Folder of a training run: its network, and the shares that are zero in an iteration")
    ] = None,
    data: Annotated[Path | None, Option(help="With --weights: directory of the data set's files")] = None,
    boards: Annotated[int, Option(help="Boards that share the batch, each in a host of its own")] = 1,
    pcie: Annotated[float, Option(help="With --boards: GB/s each way between a board and its host")] = PCIE_BYTES / 1e9,
    network_gbit: Annotated[float, Option("--network", help="With --boards: Gbit/s each way of a host")] = 100.0,
    forward: Annotated[bool, Option("--forward", help="The forward pass alone")] = False,
    as_json: Annotated[bool, Option("--json", help="Print JSON objects, one a line")] = False,
    **of_work: Any,
) -> None:
    """Tell the cycles of a training iteration from a timing model of the machine."""
    work = Work(**_with_inputs(inputs, of_work))
    config = named_preset(work.preset)
    check_sizes(batch=work.batch, steps=work.steps, boards=boards)
    _refuse_unused(context)
    announce_compilation(etalstm.model)
    links = Links(pcie=1e9 * pcie, network=1e9 / 8 * network_gbit)
    if benchmark is None:
        if boards > 1:
            work.network.require_lstm("--boards")
        shapes = [Modelled(f"{work.inputs}-{work.hidden}-{work.batch}", work.network, work.batch, work.steps)]
    else:
        shapes = [
            Modelled(one.name, one.network, one.batch, one.steps, one.v100_utilization) for one in named(benchmark)
        ]
    masked, shares = False, Shares(density, local_density, input_density, read_kept(kept_cells), digits)
    execution = work.execution(storage)
    if weights is not None:
        run = measure_run(weights, data)
        shapes = [Modelled(run.name, run.shape.network, run.shape.batch, run.shape.steps)]
        masked, shares, refresh = run.shape.masked, run.shares, run.shape.execution.delta_inputs.refresh
        execution = replace(execution, weight_format=run.shape.execution.weight_format)
    if execution.architecture.skips and not execution.arithmetic.exact:
        execution = replace(execution, delta_inputs=sending(shares.inputs, refresh))
    sizes = [(one.network, one.batch, one.steps) for one in shapes]
    measure = partial(
        measure_all, processors=count_processors(), config=config, execution=execution, shares=shares,
        choose_slices=work.choose_slices, masked=masked, mean_length=mean_length, forward=forward,
    )  # fmt: skip
    shared: Iterable[dict | None] = repeat(None, len(sizes))
    if boards == 1:
        measured = measure(sizes)
    else:
        alike = len(shares.kept_cells) == 1 and work.choose_slices and execution.shared_tokens is None
        across = Across(boards, links, config, sizes, measure, pipelines=alike)
        measured, shared = (starmap(of, sizes) for of in (across.alone, across.shared))
    for one, found, of_boards in zip(shapes, measured, shared, strict=True):
        found = {"benchmark": one.name} | found
        found |= {} if one.v100_utilization is None else {"v100_utilization": one.v100_utilization}
        found |= {} if of_boards is None else {"shared": of_boards}
        if weights is not None:
            found |= {"density": shares.delta, "local_density": shares.local, "input_density": shares.inputs}
            found["kept_cells"] = shares.kept_cells
        print(json.dumps(found) if as_json else _line(found), flush=True)
        if of_boards is not None and not as_json:
            print(*_lines_of_boards(of_boards), sep="\n", flush=True)


def _with_inputs(inputs: int | None, of_work: dict[str, Any]) -> dict[str, Any]:
    """Give the settings of a :class:`Work` with `inputs`; None: as many inputs as units."""
    return of_work | {"inputs": of_work["hidden"] if inputs is None else inputs}


def _refuse_unused(context: Context) -> None:
    """Refuse options that the command would not use, given the others."""
    chosen = context.params
    if chosen["boards"] == 1:
        refuse(context, "only used with --boards", "pcie", "network_gbit")
    elif chosen["forward"]:
        refuse(context, "not used with --forward, which has no gradients", "boards")
    if chosen["arithmetic"] == FLOAT32.name:
        refuse(context, "only used with an --arithmetic of integers", "digits")
    if chosen["weights"] is not None:
        of_run = (*SIZES.split(), "benchmark", *DENSITIES, "kept_cells", "refresh", "weight_format", "mean_length")
        refuse(context, "not used with --weights, whose run has its own", *of_run)
    else:
        refuse(context, "only used with --weights", "data")
        _refuse_refresh(context)
    if chosen["benchmark"] is not None:
        refuse(context, "not used with --benchmark, which has sizes of its own", *SIZES.split())


def _refuse_refresh(context: Context) -> None:
    """Refuse `refresh` where everything is sent anyway, and a `refresh` by which everything is sent."""
    density, steps = context.params["input_density"], context.params["refresh"]
    if density == 1:
        refuse(context, "only used with an --input-density below 1", "refresh")
    elif steps == 1:
        raise ValueError(f"with refresh 1 everything is sent: input_density must be 1, got {density}")


def _line(found: dict) -> str:
    gigabytes = sum(found["bytes"].values()) / 1e9
    of_v100 = f"  V100 {found['v100_utilization']:.3f}" if "v100_utilization" in found else ""
    return (
        f"{found['benchmark']:20s} {found['groups']} groups {found['cycles']:15,} cycles "
        f"{found['milliseconds']:10.1f} ms utilization {found['utilization']:.3f} {gigabytes:8.1f} GB{of_v100}"
    )


def _lines_of_boards(found: dict) -> Iterator[str]:
    """Say how much faster several boards are."""
    yield (
        f"  {found['boards']} boards: {found['milliseconds']:10.1f} ms, of which gradients {found['gradients']:.1f} ms "
        f"and activations {found['activations']:.1f} ms; {found['speedup']:.2f} times as fast as one, "
        f"{found['speedup_with_batch_each']:.2f} times with as large a batch each"
    )
    for name, meaning in (("pipeline", ""), ("pipeline_with_batch_each", ", with as large a batch each")):
        if (best := found[name]) is not None:
            stages = "+".join(map(str, best["stages"]))
            yield (
                f"  {best['pipelines']} pipelines, layers {stages}, {best['micro_batches']} micro-batches of "
                f"{best['sequences']}: {best['milliseconds']:.1f} ms, {best['speedup']:.2f} times as fast{meaning}"
            )


CYCLES = 100_000
PROGRAMS = 0  # the process that shows the programs; channels follow


@with_settings(Work, PANELS, TRACED)
def trace(
    out: Annotated[Path, Option(help="File to write, gzipped JSON: trace.json.gz")],
    inputs: InputSize = None,
    storage: Annotated[str, Option(help=STORAGE_HELP)] = STORAGE,
    density: Annotated[float, Option(help="Share of δ that is not zero")] = 1.0,
    local_density: Annotated[float, Option(help="Share of local gradients that is not zero")] = 1.0,
    cycles: Annotated[int, Option(help="At most so many cycles of each program")] = CYCLES,
    **of_work: Any,
) -> None:
    """Write a timeline of an iteration, by the cycle model: a track for each engine and channel of a memory port."""
    work, shares = Work(**_with_inputs(inputs, of_work)), Shares(density, local_density)
    config, execution = named_preset(work.preset), work.execution(storage)
    check_sizes(batch=work.batch, steps=work.steps, cycles=cycles)
    announce_compilation(etalstm.model)
    plan = plan_modelled(config, *work.sizes, execution, choose_slices=work.choose_slices)
    machine = execution.architecture
    operands = Densities(config, plan, delta=shares.delta, local=shares.local)
    events, start = [*_track_names(config)], 0
    for name, program in plan.programs.items():
        found = follow_program(config, program.words, operands, machine, groups=plan.groups, cycles=cycles)
        length = int(found["end"].max(initial=0))
        events.append(_event(config, name, PROGRAMS, 0, start, length, {}))
        events += _instruction_events(config, found, start)
        start += length
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, ensure_ascii=False)
    write_whole(out, gzip.compress(text.encode(), mtime=0))
    print(f"{out}: {len(events):,} events, {start:,} cycles; open it at https://ui.perfetto.dev")


def _track_names(config: Config) -> Iterator[dict]:
    """Name the tracks: a process for each channel, a thread for each engine."""
    processes = {PROGRAMS: "programs"} | {1 + n: f"channel {n}" for n in range(config.channels_per_port)}
    for number, name in processes.items():
        yield {"ph": "M", "name": "process_name", "pid": number, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": number}}
    yield {"ph": "M", "name": "thread_name", "pid": PROGRAMS, "tid": 0, "args": {"name": "program"}}
    yield {"ph": "M", "name": "thread_name", "pid": PROGRAMS, "tid": 1 + Engine.CAST, "args": {"name": "broadcaster"}}
    for channel in range(config.channels_per_port):
        for engine in Engine:
            if engine != Engine.CAST:
                names = {"pid": 1 + channel, "tid": 1 + engine, "args": {"name": engine.name.lower()}}
                yield {"ph": "M", "name": "thread_name"} | names


def _instruction_events(config: Config, instructions: np.ndarray, start: int) -> Iterator[dict]:
    for each in instructions:
        engine, of_cast = int(each["engine"]), each["engine"] == Engine.CAST
        process = PROGRAMS if of_cast else 1 + int(each["channel"])
        first, length = int(each["start"]), int(each["end"] - each["start"])
        label, details = _label(each)
        yield _event(config, label, process, 1 + engine, start + first, length, details)


def _event(config: Config, name: str, process: int, thread: int, first: int, length: int, details: dict) -> dict:
    """Give a "complete event" of the trace format; times are microseconds at the configuration's clock."""
    track = {"pid": process, "tid": thread}
    times = {"ts": first / config.clock_mhz, "dur": length / config.clock_mhz}
    return {"ph": "X", "name": name} | track | times | {"args": {"cycle": first, "cycles": length} | details}


def _label(instruction) -> tuple[str, dict]:
    """Give an instruction's name on the track, and the details that are shown with it."""
    opcode = Opcode(instruction["opcode"])
    if opcode == Opcode.VECTOR:
        return VectorOp(instruction["op"]).name, {"vectors": int(instruction["outer"] * instruction["inner"])}
    if opcode == Opcode.MAC:
        return "MAC backward" if instruction["backward"] else "MAC forward", {}
    kind = Traffic(instruction["kind"]).name.lower()
    details: dict[str, bool | int | str] = {"compressed": bool(instruction["compressed"])}
    if opcode in (Opcode.LOAD, Opcode.STORE):
        details["memory"] = Memory(instruction["memory"]).name.lower()
        details["vectors"] = int(instruction["outer"] * instruction["inner"])
    return f"{opcode.name} {kind}", details
