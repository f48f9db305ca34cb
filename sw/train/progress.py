"""What a user sees of a running training: a bar on a terminal, lines elsewhere."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

_WHOLE = Column(no_wrap=True)  # so that only the bar shrinks
_BESIDE = len("iteration 12345 10:00:00 10:00:00") + 2  # columns of the line besides count and state; a bar has five


class ProgressReport:
    """Shows the entries of a run's log. A context manager; inside, call it with each entry.

    Parameters
    ----------
    total : int
        Iterations the run will have done when it ends.
    console : rich.console.Console, optional
        Where to; standard error if not given, so that standard output stays for results.
    """

    def __init__(self, total: int, console: Console | None = None):
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)  # lines stay whole
        self._count = f"{total}/{total}"
        self._bar = Progress(
            TextColumn("iteration"), MofNCompleteColumn(table_column=_WHOLE), BarColumn(None),
            TextColumn("{task.fields[state]}"), TimeElapsedColumn(_WHOLE), TimeRemainingColumn(table_column=_WHOLE),
            console=self._console, disable=not self._console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total, state="")

    def __call__(self, entry: dict) -> None:
        """Show one entry."""
        if entry["kind"] == "iteration":
            self._bar.update(self._task, completed=entry["iteration"], state=self._fitting(describe(entry)))
        elif entry["kind"] == "interrupted":
            self._console.print(f"interrupted after iteration {entry['iteration']}; --resume goes on from there")
        elif entry["kind"] == "resumed":
            changes = ", ".join(f"{name} {old} → {new}" for name, (old, new) in entry["changed"].items())
            self._console.print(f"goes on after iteration {entry['iteration']} with other settings: {changes}")
        else:
            self._console.print(
                f"epoch {entry['epoch']}, iteration {entry['iteration']}: {entry['split']} {describe(entry)}"
            )
            if entry.get("saved"):
                self._console.print(describe_saved(entry["saved"]))

    def _fitting(self, state: str) -> str:
        """Leave out what comes last in a state until count, bar and times have room on the line, too."""
        room = self._console.width - len(self._count) - _BESIDE
        return state if len(state) <= room else state[: max(state.rfind(", ", 0, max(room + 2, 0)), 0)]

    def __enter__(self) -> "ProgressReport":
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()


def describe(entry: dict) -> str:
    """Put loss, score and, where the device has a clock, cycles into words."""
    parts = [f"loss {entry['loss']:.4f}"]
    parts += [f"{name} {entry[name]:.4g}" for name in ("accuracy", "perplexity", "rmse") if name in entry]
    parts += [f"{entry['cycles']:,} cycles"] if entry["cycles"] else []
    return ", ".join(parts)


def describe_saved(saved: dict) -> str:
    """Put what a run kept and computed, against a dense one, into words."""
    return (
        f"against a dense run: intermediates {saved['footprint']:.1%}, multiplications {saved['arithmetic']:.1%} "
        f"(of the backward pass {saved['backward_arithmetic']:.1%}), cells skipped {saved['cells_skipped']:.1%}"
    )
