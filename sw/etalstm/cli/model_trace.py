"""``eta-lstm model trace``: a timeline of an iteration, for https://ui.perfetto.dev."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option

from etalstm.cli.options import Batch, InputSizeOrUnits, Layers, PresetName, Steps, Units, read_slices
from etalstm.host.durable import write_whole
from etalstm.model.measured import Shares, plan_modelled
from etalstm.model.operands import Densities
from etalstm.model.timeline import follow_program
from etalstm.network.architecture import SWING
from etalstm.network.benchmarks import STORAGE
from etalstm.network.execution import ARCHITECTURE_HELP, SLICES_HELP, Execution
from etalstm.network.shape import NetworkShape, check_size
from etalstm_hw.config import Config
from etalstm_hw.config import preset as named_preset
from etalstm_hw.contract import Engine, Memory, Opcode, Traffic, VectorOp

CYCLES = 100_000
PROGRAMS = 0  # the process that shows the programs; channels follow


def trace(
    out: Annotated[Path, Option(help="File to write, gzipped JSON: trace.json.gz")],
    preset: PresetName = "sim",
    inputs: InputSizeOrUnits = None,
    hidden: Units = 32,
    layers: Layers = 1,
    batch: Batch = 32,
    steps: Steps = 8,
    storage: Annotated[str, Option(help="What cells keep: dense, ms1, ms1-bf16")] = STORAGE,
    slices: Annotated[str, Option(help=f"{SLICES_HELP}; auto: as many as the machine uses best")] = "1",
    density: Annotated[float, Option(help="Share of δ that is not zero")] = 1.0,
    local_density: Annotated[float, Option(help="Share of local gradients that is not zero")] = 1.0,
    architecture: Annotated[str, Option(help=ARCHITECTURE_HELP)] = SWING.name,
    cycles: Annotated[int, Option(help="At most so many cycles of each program")] = CYCLES,
) -> None:
    """Write a timeline of an iteration, by the cycle model: a track for each engine and channel of a memory port."""
    config, shares = named_preset(preset), Shares(density, local_density)
    number, choose_slices = read_slices(slices)
    for name, size in (("batch", batch), ("steps", steps), ("cycles", cycles)):
        check_size(name, size)
    network = NetworkShape(hidden if inputs is None else inputs, hidden, layers)
    execution = Execution.read(storage=storage, slices=number, architecture=architecture)
    plan = plan_modelled(config, network, batch, steps, execution, choose_slices=choose_slices)
    machine = execution.architecture
    operands = Densities(config, plan, delta=shares.delta, local=shares.local)
    events, start = [*_names(config)], 0
    for name, program in plan.programs.items():
        found = follow_program(config, program.words, operands, machine, groups=plan.groups, cycles=cycles)
        length = int(found["end"].max(initial=0))
        events.append(_event(config, name, PROGRAMS, 0, start, length, {}))
        events += _slices(config, found, start)
        start += length
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, ensure_ascii=False)
    write_whole(out, gzip.compress(text.encode(), mtime=0))
    print(f"{out}: {len(events):,} events, {start:,} cycles; open it at https://ui.perfetto.dev")


def _names(config: Config) -> Iterator[dict]:
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


def _slices(config: Config, found: np.ndarray, start: int) -> Iterator[dict]:
    for row in found:
        engine, of_cast = int(row["engine"]), row["engine"] == Engine.CAST
        process = PROGRAMS if of_cast else 1 + int(row["channel"])
        first, length = int(row["start"]), int(row["end"] - row["start"])
        label, details = _label(row)
        yield _event(config, label, process, 1 + engine, start + first, length, details)


def _event(config: Config, name: str, process: int, thread: int, first: int, length: int, details: dict) -> dict:
    """Give a slice: times are microseconds at the configuration's clock."""
    place = {"pid": process, "tid": thread, "ts": first / config.clock_mhz, "dur": length / config.clock_mhz}
    return {"ph": "X", "name": name} | place | {"args": {"cycle": first, "cycles": length} | details}


def _label(row) -> tuple[str, dict]:
    """Give an instruction's name on the track, and what else is shown of it."""
    opcode = Opcode(row["opcode"])
    if opcode == Opcode.VECTOR:
        return VectorOp(row["op"]).name, {"vectors": int(row["outer"] * row["inner"])}
    if opcode == Opcode.MAC:
        return "MAC backward" if row["backward"] else "MAC forward", {}
    kind = Traffic(row["kind"]).name.lower()
    details: dict[str, bool | int | str] = {"compressed": bool(row["compressed"])}
    if opcode in (Opcode.LOAD, Opcode.STORE):
        details |= {"memory": Memory(row["memory"]).name.lower(), "vectors": int(row["outer"] * row["inner"])}
    return f"{opcode.name} {kind}", details
