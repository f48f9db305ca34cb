"""The cost of AXI checkers in the in-process simulator."""

import statistics
from collections.abc import Callable

from etalstm.device.shape import TrainingShape
from etalstm.errors import DeviceError
from etalstm_hw.config import preset
from etalstm_sim.compiled.library import build_library, design
from etalstm_sim.transport import SimTransport
from etalstm_sim.trials.speed.iteration import run_iteration

ROUNDS = 9


def compare_checkers(name: str, shape: TrainingShape, log: Callable[[str], None] = lambda _: None) -> dict:
    """Run one training iteration with the checkers and without them, by turns.

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
        ``cycles`` of the iteration; cycles per second of CPU time, ``checked`` and ``unchecked``, the medians of
        :data:`ROUNDS` turns; ``ratio``, the first by the second.

    Raises
    ------
    DeviceError
        If a simulator cannot be built or fails, or the results or the cycles differ.
    """
    config = preset(name)
    library = build_library(design(config), log=log)
    speeds: dict[bool, list[float]] = {True: [], False: []}
    results = set()
    for turn in range(2 * ROUNDS):
        checked = turn % 2 == 0
        with SimTransport(config, library=library, checked=checked) as transport:
            found = run_iteration(transport, config, shape)
        speeds[checked].append(found["cycles"] / found["seconds"])
        results.add((found["cycles"], found["checksum"]))
    if len(results) > 1:
        raise DeviceError(f"cycles and checksums differ with the checkers and without them: {sorted(results)}")
    with_checks, without = statistics.median(speeds[True]), statistics.median(speeds[False])
    return {"cycles": found["cycles"], "checked": with_checks, "unchecked": without, "ratio": with_checks / without}
