"""``eta-lstm research layout``: both layouts of an LSTM's products, and which one is chosen."""

from typing import Annotated

from typer import Option

from etalstm.cli.options import read_sizes
from etalstm.cli.output import print_result, print_rows, with_extra
from etalstm.network.shape import check_size

COLUMNS = ("H", "B", "chosen", "major ms", "minor ms", "chosen ms", "gain", "layer ms", "torch ms", "of torch")


def layout(
    hidden: Annotated[str, Option(help="Units of the layers, with commas between")] = "128,256,512,1024,2048",
    batch: Annotated[str, Option(help="Sequences, with commas between")] = "4,8,16,32,64,128",
    tokens: Annotated[
        int | None, Option(help="Measure an output layer of so many tokens instead; its rows are --batch")
    ] = None,
    seconds: Annotated[float, Option(help="For each pair of sizes; large ones take eight turns at least")] = 1.0,
    device: Annotated[str, Option(help="cpu or cuda")] = "cpu",
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure both layouts of a layer's steps in PyTorch, forward and backward, and the one that is chosen."""
    sizes = read_sizes("hidden", hidden), read_sizes("batch", batch)
    bench = with_extra("etalstm.research.reduced.layout_bench")
    if tokens is None:
        result = bench.measure(*sizes, seconds, device)
    else:
        result = bench.measure_output(*sizes, check_size("tokens", tokens), seconds, device)
    print_result(result, as_json, show_layouts if tokens is None else show_output)


def show_output(result: dict) -> None:
    """Print what was measured of an output layer as a table."""
    title = f"On {result['device']}: milliseconds of an output layer and its loss, forward and backward"
    rows = []
    for of in result["shapes"]:
        times = [f"{of[name] * 1e3:.3f}" for name in ("major", "minor")]
        rows.append((str(of["hidden"]), str(of["batch"]), *times, f"{of['major'] / of['minor']:.2f}"))
    print_rows(title, ("H", "rows", "major ms", "minor ms", "major over minor"), rows, left=())


def show_layouts(result: dict) -> None:
    """Print what was measured as a table, and the figures over all sizes."""
    rows = []
    for of in result["shapes"]:
        times = [f"{of[name] * 1e3:.3f}" for name in ("major", "minor", "chosen", "layer", "torch")]
        gained, quotient = max(of["major"], of["minor"]) / of["chosen"], of["layer"] / of["torch"]
        sizes = str(of["hidden"]), str(of["batch"]), of["layout"]
        rows.append((*sizes, *times[:3], f"{gained:.2f}", *times[3:], f"{quotient:.2f}"))
    title = f"On {result['device']}: milliseconds of a step, forward and backward"
    print_rows(title, COLUMNS, rows, left=(COLUMNS.index("chosen"),))
    print("major, minor, chosen: the recurrent product and what depends on its layout; gain: slower over chosen")
    print("layer: a whole step with all gradients, of etalstm.research.reduced")
    print("torch: of torch.nn.LSTM; of torch: quotient")
    worst, gain, gained, minor, over = (result[name] for name in ("worst", "gain", "gained", "minor", "over_major"))
    print(f"the chosen layout takes at most {worst:.2f} times as long as the faster one")
    print(f"for {gained:.0%} of the sizes the slower one takes {gain} times as long as the chosen one, or longer")
    print(f"for {minor:.0%} batch-minor is chosen; batch-major takes up to {over:.2f} times as long as the chosen one")
