"""The display of a running training: a bar and current numbers on a terminal, lines elsewhere."""

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from etalstm.train.loss import SCORES
from etalstm.train.metrics import forward_multiplications

_WHOLE = Column(no_wrap=True)  # so that only the bar shrinks
NEW_SHARE = 0.1  # of an iteration in the means that are shown


class ProgressReport:
    """Shows the entries of a run's log. A context manager; inside, call it with each entry.

    A terminal has three lines: the bar with its times; loss, score and speed, as means of the last iterations; shares
    of intermediates and products, and the last validation.

    `total`: iterations the run will have done when it ends. `batch`: sequences of an iteration. `console`: where to;
    standard error if not given, so that standard output stays for results.
    """

    def __init__(self, total: int, batch: int, console: Console | None = None):
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)  # lines stay whole
        self._batch, self._validation = batch, ""
        self._means: dict[str, float] = {}
        self._bar = Progress(
            TextColumn("iteration"), MofNCompleteColumn(table_column=_WHOLE), BarColumn(None),
            TimeElapsedColumn(_WHOLE), TimeRemainingColumn(table_column=_WHOLE),
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total)
        self._lines = [_line(), _line()]
        self._live = Live(Group(self._bar, *self._lines), console=self._console, refresh_per_second=4)

    def __call__(self, entry: dict) -> None:
        """Show one entry."""
        if entry["kind"] == "iteration":
            self._bar.update(self._task, completed=entry["iteration"])
            self._show(entry)
        elif entry["kind"] == "interrupted":
            self._console.print(f"interrupted after iteration {entry['iteration']}; --resume goes on from there")
        elif entry["kind"] == "resumed":
            changes = ", ".join(f"{name} {old} → {new}" for name, (old, new) in entry["changed"].items())
            self._console.print(f"goes on after iteration {entry['iteration']} with other settings: {changes}")
        else:
            self._validation = f"{entry['split']} {describe(entry)}"
            self._console.print(f"epoch {entry['epoch']}, iteration {entry['iteration']}: {self._validation}")
            if entry.get("saved"):
                self._console.print(describe_saved(entry["saved"]))

    def _show(self, entry: dict) -> None:
        """Bring the lines below the bar up to date."""
        for name in ("loss", *SCORES, "seconds", "cycles"):
            if name in entry:
                self._means[name] = self._means.get(name, entry[name]) * (1 - NEW_SHARE) + entry[name] * NEW_SHARE
        speed = [f"{self._batch / self._means['seconds']:.3g} sequences/s"]
        if entry["cycles"]:
            speed += [f"{self._means['cycles'] / self._means['seconds'] / 1e6:.3g} million cycles/s"]
        texts = ", ".join([describe(self._means), *speed]), ", ".join([*_costs(entry), self._validation]).strip(", ")
        for line, text in zip(self._lines, texts, strict=True):
            line.plain = text

    def __enter__(self) -> "ProgressReport":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def _line() -> Text:
    return Text(no_wrap=True, overflow="ellipsis")


def _costs(entry: dict) -> list[str]:
    """Give texts of an iteration's shares of a dense one's intermediates and products, and of its padding.

    Shares that were not counted are left out, and so is padding of 0.
    """
    counted = [("intermediates", "footprint"), ("backward products", "backward_multiplications")]
    costs = [f"{name} {entry[key]:.0%}" for name, key in counted if key in entry]
    return costs + ([f"padding {entry['padding']:.0%}"] if entry.get("padding") else [])


def describe(entry: dict) -> str:
    """Put loss, score and, if the device counts them, cycles into words."""
    texts = [f"loss {entry['loss']:.4f}"]
    texts += [f"{name} {entry[name]:.4g}" for name in SCORES if name in entry]
    texts += [f"{entry['cycles']:,.0f} cycles"] if entry.get("cycles") else []
    return ", ".join(texts)


def describe_saved(saved: dict) -> str:
    """Give a text of a run's shares of a dense run's intermediates, multiplications and cells."""
    products, backward = saved["multiplications"], saved["backward_multiplications"]
    return (
        f"against a dense run: intermediates {saved['footprint']:.1%}, multiplications {products:.1%} "
        f"(of the forward pass {forward_multiplications(saved):.1%}, of the backward pass {backward:.1%}), "
        f"cells skipped {saved['cells_skipped']:.1%}"
    )
