"""The in-process simulator built in one piece beside the one with its channels apart: one design, one program."""

from collections.abc import Callable

from etalstm.device.shape import TrainingShape
from etalstm.errors import DeviceError
from etalstm_hw.config import preset
from etalstm_sim.compiled.library import build_library, design
from etalstm_sim.transport import SimTransport
from etalstm_sim.trials.speed.iteration import run_iteration


def compare_builds(name: str, shape: TrainingShape, log: Callable[[str], None] = lambda _: None) -> dict:
    """Run one training iteration on the in-process simulator, built in one piece and with its channels apart.

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
        ``cycles`` of the iteration, the same for both; for ``whole`` and ``apart`` the ``_cycles_per_second`` and the
        ``_build_seconds``, of CPU time; ``ratio`` of the speeds and ``build_ratio`` of the times to build.

    Raises
    ------
    DeviceError
        If a simulator cannot be built or fails, or the results or the cycles differ.
    """
    whole, apart = (_run_build(name, shape, each, log) for each in (False, True))
    for what in ("cycles", "checksum"):
        if whole[what] != apart[what]:
            raise DeviceError(f"the {what} of the two builds differ: {whole[what]} in one piece, {apart[what]} apart")
    speeds = [found["cycles"] / found["seconds"] for found in (whole, apart)]
    return {
        "cycles": whole["cycles"],
        "whole_cycles_per_second": speeds[0],
        "apart_cycles_per_second": speeds[1],
        "ratio": speeds[1] / speeds[0],
        "whole_build_seconds": whole["build_seconds"],
        "apart_build_seconds": apart["build_seconds"],
        "build_ratio": whole["build_seconds"] / apart["build_seconds"],
    }


def _run_build(name, shape, apart, log):
    config = preset(name)
    library = build_library(design(config, apart), log=log)
    with SimTransport(config, library=library) as transport:
        return run_iteration(transport, config, shape) | {"build_seconds": library.cost["cpu_seconds"]}
