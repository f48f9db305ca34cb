"""``eta-lstm research attention``: time and memory of computing attention's maps again."""

from typing import Annotated

from typer import Option

from etalstm.cli.output import print_result, print_rows, with_extra


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
    print_result(
        bench.measure(bench.Measured(hidden, batch, steps, tokens, kind, runs, device)), as_json, show_attention
    )


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
    kept = [f"{result['attention'][case]['kept_bytes'] / 1e6:.2f} MB" for case in ("kept", "again")]
    print(f"between the passes the attention holds {kept[0]}, or {kept[1]}; the rule chooses {result['auto']}")
    byte, element = result["flops_per_byte"], result["flops_per_element"]
    print(f"on {result['device']}, in operations of a matrix product: a byte's way to memory and back takes as long as")
    print(f"{byte:.1f}, an element of the maps as long as {element:.1f}")
