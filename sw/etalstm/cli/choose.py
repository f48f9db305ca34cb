"""``eta-lstm study choose``: from each study what ``eta-lstm paper`` takes of it."""

import json
from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.host.durable import write_whole
from etalstm.research.paper.densities import PATH
from etalstm.research.studies.chosen import USES, choose_all


def choose(
    studies: Annotated[Path, Option(help="Folder with a folder for each study, as docs/density")],
    out: Annotated[Path, Option(help="File to write; the installed one is what eta-lstm paper reads")] = PATH,
) -> None:
    """Choose of each study the strongest reductions whose validation score is within its tolerance of dense runs."""
    found = choose_all(studies, studies.as_posix())
    write_whole(out, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    for name, chosen in found["sets"].items():
        for use in ("dense", *USES):
            one = chosen[use]
            text = f"{one['run']}, seeds: {len(one['seeds'])}, {one['score']:g}" if one else "none"
            print(f"{name}, {use}: {text}")
