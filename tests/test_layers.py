"""Who may import whom, checked on the source: the table of the layout."""

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "etalstm_hw": "hw/etalstm_hw",
    "etalstm_sim": "sim/etalstm_sim",
    "etalstm_boards": "boards/etalstm_boards",
    "etalstm": "sw/etalstm",
}
PLAIN = {
    "etalstm.architecture",
    "etalstm.benchmarks",
    "etalstm.cells",
    "etalstm.codec",
    "etalstm.counters",
    "etalstm.delta_inputs",
    "etalstm.drawing",
    "etalstm.errors",
    "etalstm.flush",
    "etalstm.host",
    "etalstm.network",
    "etalstm.optimizer",
    "etalstm.pipelines",
    "etalstm.shared_tokens",
    "etalstm.slices",
    "etalstm.storage",
    "etalstm.stream",
    "etalstm.weight_format",
}  # plain Python and NumPy: everybody in sw and sim
CONTRACT = {"etalstm_hw.contract", "etalstm_hw.image"}  # what programs are, and their bytes
CONFIG = {"etalstm_hw.config"}
DISTANCE = {"etalstm_hw.distance"}  # the tree's latencies, for hardware and timing model alike
TABLES = {"etalstm_hw.fp.tables"}  # the integers of the activations, for hardware and golden model alike

# Each layer may import itself and these; the first prefix that fits a module is its layer.
LAYERS = {
    "etalstm_hw.contract": set(),
    "etalstm_hw.image": {"etalstm_hw.contract"},
    "etalstm_hw.config": CONTRACT,
    "etalstm_hw.distance": set(),
    "etalstm_hw.fp.tables": CONTRACT,
    "etalstm_hw": CONTRACT | CONFIG | {"etalstm.host"},
    "etalstm_sim.arithmetic.prove": {
        "etalstm_hw",
        "etalstm_sim",
        "etalstm.golden",
    },  # holds hardware to golden
    "etalstm_sim.checks": CONTRACT | CONFIG | {"etalstm_sim.programs.refusals"},  # the model of the hardware's checks
    "etalstm_sim.programs.refusals": CONTRACT | CONFIG,
    "etalstm_sim.programs.changes": CONTRACT | CONFIG | {"etalstm.device", "etalstm.plan", "etalstm_sim"} | PLAIN,
    # comparison: what is trained for coverage is compared with golden
    "etalstm_sim.coverage": {"etalstm_hw", "etalstm.device", "etalstm.comparison", "etalstm.plan.walk", "etalstm_sim"}
    | PLAIN,
    "etalstm_sim": {"etalstm_hw", "etalstm.device"} | PLAIN,
    "etalstm_boards": {
        "etalstm_hw",
        "etalstm.host",
        "etalstm.errors",
        "etalstm_sim.compiled.toolchain",
    },  # the cache
    "etalstm.benchmarks": {"etalstm.network"},
    "etalstm.architecture": CONTRACT | {"etalstm.storage"},
    "etalstm.cells": CONTRACT,
    "etalstm.counters": CONTRACT,
    "etalstm.delta_inputs": {"etalstm.storage"},
    "etalstm.drawing": {"etalstm.errors", "etalstm.host"},
    "etalstm.errors": set(),
    "etalstm.flush": {"etalstm.host"},
    "etalstm.host": {"etalstm.errors"},
    "etalstm.network": {"etalstm.host", "etalstm.cells", "etalstm.errors", "etalstm.flush"},
    "etalstm.optimizer": {"etalstm.errors", "etalstm.network"},
    "etalstm.pipelines": {"etalstm.slices"},
    "etalstm.shared_tokens": {"etalstm.architecture", "etalstm.delta_inputs", "etalstm.network"},
    "etalstm.slices": {"etalstm.network"},
    "etalstm.weight_format": set(),
    "etalstm.storage": {"etalstm.cells", "etalstm.network"},
    "etalstm.codec": {"etalstm.errors", "etalstm.host", "etalstm.storage"} | CONTRACT,
    "etalstm.stream": {"etalstm.codec", "etalstm.errors", "etalstm.network", "etalstm.storage"},
    "etalstm.golden": PLAIN | CONTRACT | TABLES,
    "etalstm.plan": PLAIN | CONTRACT | CONFIG,
    "etalstm.device": PLAIN | CONTRACT | CONFIG | {"etalstm.plan", "etalstm.golden"},
    "etalstm.model": PLAIN | CONTRACT | CONFIG | DISTANCE | {"etalstm.plan"},
    "etalstm.paper": PLAIN | CONTRACT | {"etalstm.model"},
    "etalstm.data": PLAIN,
    "etalstm.interchange": {"etalstm.host", "etalstm.errors", "etalstm.network"},
    "etalstm.train": PLAIN
    | CONTRACT
    | {
        "etalstm.golden",
        "etalstm.device",
        "etalstm.data",
        "etalstm.interchange",
        "etalstm.plan",
    },
    "etalstm.studies": PLAIN | {"etalstm.data", "etalstm.device", "etalstm.train"},
    # golden: the machine's additions, on the host; plan: what layers cost; train: whether a run can go on
    "etalstm.ranks": PLAIN | CONTRACT | CONFIG | {"etalstm.golden", "etalstm.plan", "etalstm.device", "etalstm.train"},
    # golden: float64, for gradient checks
    "etalstm.nn": PLAIN | {"etalstm.golden", "etalstm.device", "etalstm.interchange"},
    "etalstm.optim": PLAIN | {"etalstm.golden", "etalstm.nn"},
    # train: a run's folder, its log and signals; studies: what a study trains
    "etalstm.models": PLAIN | {"etalstm.data", "etalstm.device", "etalstm.nn", "etalstm.studies", "etalstm.train"},
    # train: what is read from a file is checked
    "etalstm.profile": PLAIN | CONTRACT | CONFIG | DISTANCE | {"etalstm.train"},
    # train: a run's folder, its log and signals; profile: which sizes pay
    "etalstm.compress": PLAIN | {"etalstm.data", "etalstm.device", "etalstm.nn", "etalstm.profile", "etalstm.train"},
    "etalstm": set(FOLDERS),  # the command line
}

# Transports never see the golden model: only the devices that compute with it do.
GOLDEN_IN_DEVICE = {"etalstm.device.golden", "etalstm.device.offload"}
# Everything else works without PyTorch.
TORCH = (
    "etalstm.nn",
    "etalstm.optim",
    "etalstm.models",
    "etalstm.compress",
    "etalstm.profile.host",
)
AMARANTH = ("etalstm_hw", "etalstm_boards", "etalstm_sim")

# Imports inside functions, with their reasons.
LAZY: dict[str, set[str]] = {}


@dataclass(frozen=True)
class Source:
    """A module's syntax tree, and the package that its relative imports start from."""

    tree: ast.Module
    package: str


def modules():
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *parts]).removesuffix(".__init__")
            home = name if path.name == "__init__.py" else name.rpartition(".")[0]
            yield name, Source(ast.parse(path.read_text(), str(path)), home)


MODULES = dict(modules())


def within(name, prefix):
    return name == prefix or name.startswith(f"{prefix}.")


def layer_of(name):
    return next(layer for layer in LAYERS if within(name, layer))


def imports(source, tree=None):
    """Every module that a tree imports, with its line; `from a import b` is `a.b` where that is a module."""
    for node in ast.walk(tree or source.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = source.package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield (full if full in MODULES else base), node.lineno


@pytest.mark.parametrize("name", MODULES)
def test_imports_only_the_layers_below(name):
    layer = layer_of(name)
    allowed = LAYERS[layer] | {layer}
    for imported, line in imports(MODULES[name]):
        if imported.partition(".")[0] in FOLDERS:
            assert any(within(imported, prefix) for prefix in allowed), (
                f"{name}, line {line}: imports {imported}; layer {layer} may import {sorted(allowed)}"
            )
            if within(imported, "etalstm.golden") and layer == "etalstm.device":
                assert name in GOLDEN_IN_DEVICE, f"{name}, line {line}: only {GOLDEN_IN_DEVICE} import golden"
        for framework, users in (("amaranth", AMARANTH), ("torch", TORCH)):
            if within(imported, framework):
                assert any(within(name, prefix) for prefix in users), f"{name}, line {line}: imports {imported}"


@pytest.mark.parametrize("name", MODULES)
def test_imports_at_the_top(name):
    source = MODULES[name]
    inside = [
        (line, imported)
        for function in ast.walk(source.tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for imported, line in imports(source, function)
    ]
    found = {imported for _, imported in inside}
    assert found <= LAZY.get(name, set()), f"{name} imports inside functions: {inside}"


def test_there_are_no_cycles():
    edges = {
        name: {imported for imported, _ in imports(source) if imported in MODULES and imported != name}
        for name, source in MODULES.items()
    }
    done, path = set(), []

    def visit(name):
        assert name not in path, f"import cycle: {' ← '.join([*path[path.index(name) :], name])}"
        if name in done:
            return
        path.append(name)
        for imported in sorted(edges[name]):
            visit(imported)
        path.pop()
        done.add(name)

    for name in edges:
        visit(name)


def test_the_golden_device_runs_without_amaranth():
    program = "import sys, etalstm.device, etalstm.golden, etalstm.plan; sys.exit('amaranth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
