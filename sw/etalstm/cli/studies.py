"""What the commands that make studies have in common."""

import sys
from pathlib import Path

from etalstm.host.drawing import can_draw
from etalstm.host.durable import write_whole
from etalstm.network.shape import check_size
from etalstm.research.studies.figure import draw
from etalstm.research.studies.page import markdown
from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.study import run_study
from etalstm.research.studies.subject import Subject

OUT_HELP = "Folder for density.json, density.md and density.svg"
SEEDS_HELP = "Runs of each kind"


def study_of(subject: Subject, settings, runs: str, seeds: int, out: Path) -> None:
    """Train what a folder's study lacks; write its table and, with matplotlib, its figure.

    Parameters
    ----------
    subject : Subject
    settings : dataclass
        Of all runs, as the subject has them.
    runs : str
        As :meth:`Reduction.of_several` reads it.
    seeds : int
    out : Path

    Raises
    ------
    ValueError
        Naming the value that cannot be.
    """
    check_size("seeds", seeds)
    study = run_study(subject, settings, Reduction.of_several(runs), seeds, out / "density.json", _report)
    page = markdown(subject, study, seeds)
    write_whole(out / "density.md", page)
    print(page)
    if can_draw():
        draw(study, out / "density.svg", subject.score(study["settings"]))
    else:
        print("no figure: matplotlib is not installed (extra `study`)", file=sys.stderr)


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
