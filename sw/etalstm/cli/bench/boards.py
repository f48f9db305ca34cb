"""``eta-lstm bench boards``."""

import json
from typing import Annotated

from typer import Option

from etalstm.device.ranks.bench import Sizes, measure
from etalstm.device.ranks.team import find_team


def boards(
    hidden: Annotated[int, Option(help="Units of a layer, and its inputs")] = 1024,
    layers: Annotated[int, Option(help="LSTM layers")] = 8,
    device_ratio: Annotated[float, Option(help="What a device's iteration takes, over the exchange")] = 2.0,
    runs: Annotated[int, Option(help="Iterations; medians count")] = 10,
    pipeline: Annotated[int, Option(help="Processes over which the layers are spread; 1: each has all")] = 1,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure how much of the exchange of gradients several processes wait for, on devices that only wait.

    To be started on several processes: eta-lstm launch -n 2 -- bench boards.
    """
    found = measure(find_team(), Sizes(hidden, layers, device_ratio, runs, pipeline))
    if as_json:
        print(json.dumps(found))
        return
    print(f"{found['ranks']} ranks, {found['gradient_bytes'] / 1e6:.1f} MB of gradients")
    for name in ("device", "exchange", "iteration"):
        print(f"{name:10}{found[f'{name}_seconds'] * 1e3:9.1f} ms")
    print(f"an iteration takes {found['over_longer']:.3f} of the longer of device and exchange")
