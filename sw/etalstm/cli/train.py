"""``eta-lstm train``."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from signal import Signals
from typing import Annotated

from typer import Context

from etalstm.cli import SIGNAL_EXIT
from etalstm.cli.declared import chosen, with_settings
from etalstm.cli.devices import open_on_ranks
from etalstm.cli.options import option
from etalstm.cli.output import say
from etalstm.data import open_data
from etalstm.device.ranks.team import find_team
from etalstm.network.shared_tokens import OFF
from etalstm.train.declared import naming_file, refuse_unused
from etalstm.train.folder import RunFolder
from etalstm.train.loop import Trainer
from etalstm.train.progress import ProgressReport
from etalstm.train.reports import SERVICES, both, open_service
from etalstm.train.settings import PANELS, RUN, Settings


@with_settings(Settings, PANELS)
def train(
    context: Context,
    out: Annotated[Path, option("Folder for settings, metrics and checkpoints", RUN)],
    resume: Annotated[
        bool, option("Go on from the checkpoint in the folder, with its settings", RUN, "--resume")
    ] = False,
    overwrite: Annotated[bool, option("Begin anew in a folder that holds a run", RUN, "--overwrite")] = False,
    config: Annotated[
        Path | None, option("TOML file of settings, as a run's settings.toml; options come on top", RUN)
    ] = None,
    log: Annotated[
        str | None, option(f"Where to show the numbers too: {', '.join(SERVICES)}, if the package is installed", RUN)
    ] = None,
    **_,
) -> int:
    """Train an LSTM on a data set, or on a file of one's own.

    Ctrl-C, SIGTERM and SIGHUP leave a checkpoint; the exit code is then 130, 143 or 129.
    """
    of_line = chosen(context, Settings)
    if resume and overwrite:
        raise ValueError("--resume goes on with a run, --overwrite begins anew: there must be one of them, got both")
    folder = RunFolder(out)
    base = folder.settings_to_resume() if resume else {}
    of_file = Settings.read(config) if config else {}
    with naming_file(config):
        settings = Settings(**base | of_file | of_line)
        if settings.paranoid and find_team():
            raise ValueError(f"paranoid is for one process: it must be off on several, got {settings.paranoid}")
        found = open_data(settings)
    refuse_unused({*of_line, *_changed(of_file)}, settings, found)
    for note in found.notes:
        say(note)
    with ExitStack() as stack:
        stack.enter_context(folder).open(resume, overwrite)
        opened = stack.enter_context(open_on_ranks(settings.device, settings.preset, settings.pipeline))
        trainer = Trainer(settings, opened, folder, resume, overwrite, found)
        if trainer.data.buckets:
            say(_buckets_text(trainer.data.buckets))
        if settings.shared_tokens != OFF:
            say(trainer.learner.sharing.reason)
        service = open_service(log, str(out), settings) if log else None
        if service:
            stack.enter_context(service)
        with ProgressReport(trainer.total_iterations, settings.batch) as progress:
            last = trainer.run(both(progress, service) if service else progress)
    return SIGNAL_EXIT + Signals[last["signal"]] if last["kind"] == "interrupted" else 0


def _buckets_text(buckets: Mapping[int, int]) -> str:
    """Write the most steps of each bucket, and how many training sequences it has."""
    sizes = ", ".join(f"{bound} ({count:,})" for bound, count in buckets.items())
    return f"buckets, by their most steps (and training sequences): {sizes}"


def _changed(of_file: dict) -> set[str]:
    """Give the settings of a file that are not the defaults: a run's settings.toml names all."""
    return {name for name, value in of_file.items() if value != getattr(Settings, name)}
