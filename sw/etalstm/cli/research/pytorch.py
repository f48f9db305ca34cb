"""``eta-lstm research layout``, ``attention``, ``reduced``: savings as software, measured in PyTorch."""

from typing import Annotated

from typer import Option

from etalstm.cli.output import give, print_rows, with_extra
from etalstm.network.shape import check_size
from etalstm.network.storage import read_thresholds

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
    give(result, as_json, show_layouts if tokens is None else show_output)


def read_sizes(name: str, text: str) -> list[int]:
    """Read integers with commas between; ``ValueError`` naming `name` if there is anything else, or one below 1."""
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be integers with commas between, got {text!r}") from None
    for size in sizes:
        check_size(name, size)
    return sizes


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


def attention(
    hidden: Annotated[int, Option(help="Units, and the size of the attention's maps")] = 256,
    batch: Annotated[int, Option(help="Pairs of sentences")] = 32,
    steps: Annotated[int, Option(help="Steps of encoder and decoder")] = 30,
    tokens: Annotated[int, Option(help="Tokens of each language")] = 6000,
    kind: Annotated[str, Option(help="additive or dot")] = "additive",
    runs: Annotated[int, Option(help="Turns, of three passes of each case; medians count")] = 15,
    device: Annotated[str, Option(help="cpu or cuda")] = "cpu",
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure attention whose maps are kept, and attention whose maps are computed again."""
    bench = with_extra("etalstm.research.translate.attention_bench")
    give(bench.measure(bench.Measured(hidden, batch, steps, tokens, kind, runs, device)), as_json, show_attention)


def show_attention(result: dict) -> None:
    """Print what was measured as a table."""
    rows = []
    for name in ("attention", "iteration"):
        of = result[name]
        seconds = [f"{of[case]['seconds'] * 1e3:.1f}" for case in ("kept", "again")]
        peaks = [f"{of[case]['peak_bytes'] / 1e6:.2f}" for case in ("kept", "again")]
        rows.append((name, *seconds, f"{of['time']:.2f}", *peaks, f"{of['peak']:.2f}"))
    title = f"{'equal' if result['equal'] else 'DIFFERENT'} bits in both cases"
    print_rows(title, ("", "kept ms", "again ms", "quotient", "peak MB", "again MB", "quotient"), rows)
    held = [f"{result['attention'][case]['kept_bytes'] / 1e6:.2f} MB" for case in ("kept", "again")]
    print(f"between the passes the attention holds {held[0]}, or {held[1]}; the rule chooses {result['auto']}")
    byte, element = result["flops_per_byte"], result["flops_per_element"]
    print(f"on {result['device']}, in operations of a matrix product: a byte's way to memory and back takes as long as")
    print(f"{byte:.1f}, an element of the maps as long as {element:.1f}")


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
    give(bench.measure(bench.drawn(hidden, batch, steps), options), as_json, show_reduced)


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
