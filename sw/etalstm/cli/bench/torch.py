"""``eta-lstm bench torch``: what ``etalstm.nn.LSTM`` costs beside its device, and beside PyTorch's own LSTM."""

import json
from typing import Annotated

from typer import Option

from etalstm.cli.output import warn_if_busy, with_extra


def torch(
    hidden: Annotated[int, Option(help="Units of the layer, and its inputs")] = 256,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 35,
    longest: Annotated[int, Option(help="Steps of the longest sequence of the packed batch")] = 64,
    runs: Annotated[int, Option(help="Turns, of three passes of each; medians count")] = 15,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure etalstm.nn.LSTM on golden, forward and backward."""
    bench = with_extra("etalstm.nn.bench")
    warn_if_busy()
    result = bench.measure(bench.Sizes(hidden, batch, steps, longest, runs))
    if as_json:
        print(json.dumps(result))
        return
    for name in ("session", "bare", "module", "stock"):
        print(f"{name:8}{result[f'{name}_seconds'] * 1e3:9.1f} ms")
    print(f"the module takes {result['module_overhead']:.1%} more than its session, of which ", end="")
    print(f"{result['bare_overhead']:.1%} are autograd's own,")
    print(f"and has {result['of_stock']:.2f} of the speed of PyTorch's LSTM")
    print(f"a packed batch of {bench.SHORTEST} to {longest} steps takes ", end="")
    print(f"{result['packed_over_real_steps']:.2f} times what its real steps take")
