"""The in-process simulator beside cocotb: the same Verilog, the same program."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from etalstm.device.shape import TrainingShape
from etalstm.errors import DeviceError
from etalstm_hw.config import preset
from etalstm_sim.benches.bench import run_bench
from etalstm_sim.benches.identified import identified_machine
from etalstm_sim.transport import SimTransport
from etalstm_sim.trials.speed.iteration import run_iteration

MEMORY_BYTES = 1 << 28
_RUNS = 5  # of the fast one: an iteration takes it a fraction of a second


def compare_simulators(name: str, shape: TrainingShape, log: Callable[[str], None] = lambda _: None) -> dict:
    """Run one training iteration on both simulators; builds, and the host's work around the programs, do not count.

    Their memories are not the same: the in-process one answers after :data:`etalstm_sim.transport.LATENCY_CYCLES`
    cycles, that of cocotb at once, a few bursts at a time. So each has cycles of its own.

    Parameters
    ----------
    name : str
        Preset of the machine.
    shape : TrainingShape
    log : function
        Told how far a build is.

    Returns
    -------
    dict
        ``cycles`` and ``cocotb_cycles`` of the iteration; ``sim_cycles_per_second`` and ``cocotb_cycles_per_second``,
        of CPU time; ``ratio`` of the two.

    Raises
    ------
    DeviceError
        If a simulator cannot be built or fails, or the results differ.
    """
    config = preset(name)
    with SimTransport(config, memory_bytes=MEMORY_BYTES, log=log) as transport:
        here = run_iteration(transport, config, shape, _RUNS)
    there = _run_cocotb(config, shape, log)
    if here["checksum"] != there["checksum"]:
        raise DeviceError("the results of the two simulators differ")
    speeds = [found["cycles"] / found["seconds"] for found in (here, there)]
    return {
        "cycles": here["cycles"],
        "cocotb_cycles": there["cycles"],
        "sim_cycles_per_second": speeds[0],
        "cocotb_cycles_per_second": speeds[1],
        "ratio": speeds[0] / speeds[1],
    }


def _run_cocotb(config, shape, log):
    log("building the same design for cocotb, if the cache does not have it")
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / "result.json"
        sizes = {"network": asdict(shape.network), "batch": shape.batch, "steps": shape.steps, "masked": shape.masked}
        arguments = {"config": config.as_dict(), "shape": sizes, "memory_bytes": MEMORY_BYTES, "result": str(result)}
        environment = {"ITERATION": json.dumps(arguments)}
        machine = identified_machine(config, "machine")
        try:
            run_bench(
                machine, "machine", "etalstm_sim.trials.speed.bench_iteration", Path(directory), environment=environment
            )
        except AssertionError as error:
            raise DeviceError(str(error)) from None
        return json.loads(result.read_text(encoding="utf-8"))
