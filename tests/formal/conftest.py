"""Runs the proofs of the files here, and ends with a table of what they said."""

import pytest

from tests.formal.prove import Task, missing_tools

_FIELDS = ("unit", "kind", "method", "seconds", "caught")


def pytest_addoption(parser):
    parser.addoption("--formal", action="store_true", help="run all proofs and all mutants, not only the quick ones")


def pytest_generate_tests(metafunc):
    """Give ``test_proof`` of each file the tasks of its ``PROOFS``."""
    if "task" in metafunc.fixturenames:
        metafunc.parametrize("task", [task for proof in metafunc.module.PROOFS for task in proof.tasks], ids=str)


def pytest_collection_modifyitems(config, items):
    """Leave all but the quick proofs out, unless all are asked for."""
    if config.getoption("--formal", default=False):
        return
    left_out = [item for item in items if hasattr(item, "callspec") and not _is_quick(item.callspec.params.get("task"))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def _is_quick(task) -> bool:
    return not isinstance(task, Task) or (task.proof.quick and task.kind == "holds")


@pytest.fixture
def prove(record_property):
    """Run a task, keep what it said for the table, and fail with the trace unless it is what was expected."""
    missing = missing_tools()
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: make formal")

    def run(task):
        verdict = task.run()
        row = (task.proof.name, task.kind, str(task.proof.method), verdict.seconds, verdict.word == "FAIL")
        record_property("proof", dict(zip(_FIELDS, row, strict=True)))
        assert verdict.good, verdict.explain()

    return run


def pytest_terminal_summary(terminalreporter):
    """Print a line for each component."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, []) if r.when == "call"]
    rows = [(dict(r.user_properties).get("proof"), r.passed) for r in reports]
    units = {}
    for row, passed in rows:
        if row:
            units.setdefault(row["unit"], []).append(row | {"passed": passed})
    if units:
        terminalreporter.section("proofs")
        terminalreporter.line(f"{'component':<20} {'method':<14} {'proof':>8} {'in all':>8}  mutants caught")
    for unit, tasks in sorted(units.items()):
        mutants = [task for task in tasks if task["kind"].startswith("mutant")]
        held = [task for task in tasks if task["kind"] == "holds"]
        alone, total = (sum(task["seconds"] for task in some) for some in (held, tasks))
        good = "" if all(task["passed"] for task in tasks) else "  FAILED"
        caught = f"{sum(task['caught'] for task in mutants)} of {len(mutants)}"
        terminalreporter.line(f"{unit:<20} {tasks[0]['method']:<14} {alone:6.1f} s {total:6.1f} s  {caught}{good}")
