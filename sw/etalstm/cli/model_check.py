"""``eta-lstm model check``: the cycle model beside the Verilog."""

import json
from collections.abc import Iterable
from itertools import islice
from typing import Annotated

import numpy as np
from typer import Context, Exit, Option

from etalstm.cli.options import refuse
from etalstm.cli.output import say
from etalstm.network.shape import check_size
from etalstm_sim.trials.model.compare import compare
from etalstm_sim.trials.model.configurations import Configuration, chosen, random_configurations

ERROR = 0.01  # a model that is further from the Verilog is not right


def check(
    context: Context,
    preset: Annotated[
        str | None, Option(help="That of the machine [default: all of float32 that take seconds]")
    ] = None,
    random: Annotated[
        int | None, Option(help="Check so many random networks and options instead; exit code 1 if one is off by 1 %")
    ] = None,
    seed: Annotated[int, Option(help="With --random: of all configurations; seed and number make one")] = 0,
    first: Annotated[int, Option(help="With --random: number of the first; with --random 1 it is checked alone")] = 0,
    as_json: Annotated[bool, Option("--json", help="Print JSON objects, one a line")] = False,
) -> None:
    """Compare the cycles of the model with those of the Verilog, on several networks and machines."""
    if random is None:
        refuse(context, "only used with --random", "seed", "first")
        check_all(chosen(preset), as_json)
        return
    count = check_size("random", random)
    errors = check_all(islice(random_configurations(seed, first, preset), count), as_json)
    if not as_json:
        print(_distribution(errors))
    if max(errors) > ERROR:
        raise Exit(1)


def _distribution(errors: list[float]) -> str:
    """Tell how errors are distributed."""
    shares = (0.5, 0.75, 0.9, 0.99)
    of_shares = zip(shares, np.quantile(errors, shares), strict=True)
    quantiles = ", ".join(f"{share:.0%} are at most {error:.3%} off" for share, error in of_shares)
    exact, above = sum(error == 0 for error in errors), sum(error > ERROR for error in errors)
    return f"{exact} of {len(errors)} equal; {quantiles}; {above} are more than {ERROR:.0%} off"


def check_all(configurations: Iterable[Configuration], as_json: bool = False) -> list[float]:
    """Compare model and Verilog on configurations, a line each; print the largest error last, and give all."""
    errors = []
    for configuration in configurations:
        found = compare(configuration, log=say)
        errors.append(found["error"])
        print(json.dumps(found) if as_json else _line(found), flush=True)
    largest = max(errors)
    print(json.dumps({"largest_error": largest}) if as_json else f"largest error {largest:.3%}")
    return errors


def _line(found: dict) -> str:
    return (
        f"{found['configuration']:20s} model {found['model_cycles']:11,} cycles, Verilog {found['cycles']:11,}, "
        f"error {found['error']:.3%}  {found['text']}"
    )
