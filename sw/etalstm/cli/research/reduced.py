"""``eta-lstm research reduced``: what the two memory savings cost and save as software, in PyTorch."""

from typing import Annotated

from typer import Option

from etalstm.cli.output import print_result, print_rows, with_extra
from etalstm.network.storage import read_thresholds


def reduced(
    hidden: Annotated[int, Option(help="Units of the layer, and its inputs")] = 256,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 35,
    theta: Annotated[str, Option(help="Threshold of the local gradients: one number or six")] = "0.1",
    skip: Annotated[float, Option(help="Share of the steps that the cases with MS2 skip")] = 0.5,
    device: Annotated[str, Option(help="cpu or cuda")] = "cpu",
    runs: Annotated[int, Option(help="Turns, of three iterations of each case; medians count")] = 15,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure the memory savings MS1, MS2 and Combine-MS in PyTorch, forward and backward."""
    bench = with_extra("etalstm.research.reduced.savings_bench")
    options = bench.Options(read_thresholds(theta), skip, device, runs)
    print_result(bench.measure(bench.drawn(hidden, batch, steps), options), as_json, show_reduced)


def show_reduced(result: dict) -> None:
    """Print what was measured as a table."""
    title = f"On {result['device']}: {result['density']:.2f} of the local gradients are kept"
    rows = []
    for name, case in result["cases"].items():
        quotients = [[f"{case[f'{what}_of_{base}']:.2f}" for base in ("plain", "stock")] for what in ("time", "kept")]
        time = f"{case['seconds'] * 1e3:.1f}"
        kept, peak = (f"{case[what] / 1e6:.2f}" for what in ("kept_bytes", "peak_bytes"))
        rows.append((name, time, *quotients[0], kept, *quotients[1], peak))
    print_rows(title, ("", "ms", "of plain", "of stock", "kept MB", "of plain", "of stock", "peak MB"), rows)
    print("kept: what the graph holds between the passes; peak: the most that tensors take in an iteration")
    print("stock is torch.nn.LSTM; plain is autograd's, written out step by step")
