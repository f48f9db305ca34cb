"""What surrounds the code agrees with the code: versions, targets, supported versions of Python."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()
JOBS = re.findall(r"^  (\S+):\n    runs-on: (?s:.*?)python: \[(.*)\]", WORKFLOW, re.M)


def test_every_file_names_the_same_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    changed = re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert (cited, changed) == (PROJECT["version"], PROJECT["version"])


def test_hosted_checks_are_those_of_ci_run():
    run = re.findall(r"^make ([\w-]+)", (ROOT / ".ci/run").read_text(), re.M)
    assert re.findall(r"- run: (.*)", WORKFLOW) == [f"make {target}" for target in run]
    assert [job for job, _ in JOBS] == run


@pytest.mark.parametrize("job, versions", JOBS)
def test_hosted_checks_run_on_every_version_of_python_that_is_declared(job, versions):
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert re.findall(r'"([\d.]+)"', versions) == declared, job
    assert PROJECT["requires-python"] == f">={declared[0]}"
