"""A comparison on small made-up networks, whose cycles are made up too."""

from etalstm.network.benchmarks import Benchmark
from etalstm.research.paper.requests import Request
from etalstm.research.paper.study import Study, compare

TINY = Benchmark("tiny", 8, 1, 11, 16)
FACTORS = {"dynamic": 1.0, "static": 1.5, "inference": 1.25, "swing": 0.5}
SWEEPS = {"hidden": (8, 16), "layers": (1, 2), "steps": (4, 8)}
BYTES = {f"{way}_{kind}": 10 for way in ("read", "write") for kind in ("weights", "activations", "intermediates")}
BYTES |= {"read_deltas": 5, "write_deltas": 5, "program": 1}
FOOTPRINT = {"weights": 40, "activations": 30, "intermediates": 20, "deltas": 10, "optimizer": 80, "program": 1}


def measure(request: Request) -> dict:
    """Give 100 cycles and 10 for each step and sequence, times the architecture's factor."""
    cycles = FACTORS[request.execution.architecture.name] * (100 + 10 * request.steps * request.batch)
    compressed = request.execution.storage.compressed
    share = 0.5 if compressed else 1.0
    return {
        "cycles": cycles,
        "groups": 5 if compressed else 2,
        "milliseconds": cycles / 1e3,
        "operations": {"mac": 1000, "elementwise": 10, "activation": 5},
        "bytes": {name: share * count for name, count in BYTES.items()},
        "footprint": {name: share * count for name, count in FOOTPRINT.items()},
        "fits": compressed,
    }


def compared() -> Study:
    """Compare on one network."""
    return compare([TINY], SWEEPS, 1e9, measure)
