"""``eta-lstm generate``."""

from typing import Annotated

from typer import Argument, Option

from etalstm.cli.using import DeviceName, Preset, Run, Which, loaded


def generate(
    run: Run,
    prompt: Annotated[str, Argument(help="What to go on from, at least one token")],
    length: Annotated[int, Option(help="Tokens to add")] = 200,
    temperature: Annotated[float, Option(help="Above 1 more varied, below 1 less; 0: the most probable token")] = 1.0,
    seed: Annotated[int, Option(help="Of what is drawn")] = 0,
    checkpoint: Which = None,
    device: DeviceName = "golden",
    preset: Preset = None,
) -> None:
    """Go on with a text, as a language model that was trained would."""
    with loaded(run, device, preset, checkpoint) as model:
        added = model.generate(prompt, length, temperature, seed)
    print(prompt + (" " if model.encoding.unit == "words" else "") + added)
