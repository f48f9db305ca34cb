"""``eta-lstm research paper``: the comparison of the source paper anew, as one page."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.cli.output import say
from etalstm.errors import PlanError
from etalstm.host.computer import count_processors
from etalstm.host.drawing import check_can_draw
from etalstm.host.durable import write_whole
from etalstm.model.measured import measure
from etalstm.network.benchmarks import BENCHMARKS
from etalstm.network.shape import NetworkShape
from etalstm.research.paper import study as studies
from etalstm.research.paper.document import Figure, html, markdown
from etalstm.research.paper.page import page
from etalstm.research.paper.requests import Request, Runs, requests_of
from etalstm.research.paper.study import Study, as_dict, compare, read_study
from etalstm_hw.config import Config
from etalstm_hw.config import preset as named_preset

PRESET = "vcu128"
SIX = ("trec10", "ptb", "imdb", "waymo", "wmt", "babi")
QUICK = ("ptb", "waymo")
ENLARGED_BITS = 36  # of a byte address: more memory than any of the networks needs


def paper(
    out: Annotated[Path, Option(help="Folder for paper.json, paper.md, its figures, and paper.html")],
    quick: Annotated[bool, Option("--quick", help=f"Two networks only, {', '.join(QUICK)}, and few sizes")] = False,
    redraw: Annotated[bool, Option("--redraw", help="Pages and figures anew from the folder's paper.json")] = False,
) -> None:
    """Compare η-LSTM with a GPU and with other machines, as its paper does; write figures, tables and a page.

    The cycles are kept in runs.json. A folder that holds part of them already is completed.
    """
    check_can_draw()
    study = read_study(out / "paper.json") if redraw else _modelled(out, quick)
    shown = " --quick" if study.names == list(QUICK) else ""
    blocks = list(page(study, f"eta-lstm research paper --out DIR{shown}"))
    for block in blocks:
        if isinstance(block, Figure):
            write_whole(out / f"{block.name}.svg", block.svg)
    write_whole(out / "paper.md", markdown(blocks))
    write_whole(out / "paper.html", html(blocks))
    print(out / "paper.html")


def _modelled(out: Path, quick: bool) -> Study:
    """Ask the cycle model what a folder's runs.json does not know yet; compare, and write paper.json."""
    out.mkdir(parents=True, exist_ok=True)
    config, benchmarks = named_preset(PRESET), [BENCHMARKS[name] for name in (QUICK if quick else SIX)]
    runs = Runs(out / "runs.json", repr(config))
    sweeps = studies.QUICK if quick else studies.SWEEPS
    requests = [request for one in benchmarks for request in requests_of(one)]
    requests += studies.requests_of(sweeps)
    runs.complete(requests, partial(answer, config=config), count_processors(), _report)
    study = compare(benchmarks, sweeps, 2 * config.pes * config.clock_mhz * 1e6, runs)
    write_whole(out / "paper.json", json.dumps(as_dict(study), indent=1, ensure_ascii=False) + "\n")
    return study


def answer(request: Request, config: Config) -> dict:
    """Model an iteration. If it does not fit the memory, model it with a larger memory.

    Gives a dict: what :func:`etalstm.model.measured.measure` finds, and ``fits``.
    """
    network = NetworkShape(request.hidden, request.hidden, request.layers)
    one = partial(measure, network, request.batch, request.steps, execution=request.execution, shares=request.shares)
    try:
        return one(config=config) | {"fits": True}
    except PlanError:
        return one(config=replace(config, address_bits=ENLARGED_BITS)) | {"fits": False}


def _report(request: Request, found: dict) -> None:
    say(f"{request.key}: {found['cycles']:,} cycles")
