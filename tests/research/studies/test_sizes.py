"""Studies that differ in the units of a layer, beside each other."""

import json

import pytest

from etalstm.cli.main import run
from etalstm.errors import RunError
from etalstm.host.drawing import can_draw
from etalstm.research.studies.several import read_sizes, rows_by_size

RUNS = "dense,ms1:0.1"


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Give the folders of two studies of digits, 4 and 8 units."""
    place, folders = tmp_path_factory.mktemp("studies"), []
    for hidden, runs in ((8, RUNS), (4, f"{RUNS},ms1:0.2")):
        folders.append(place / str(hidden))
        sizes = "--hidden", hidden, "--iterations", 2, "--epochs", 1, "--seeds", 1, "--runs", runs
        assert (
            run(list(map(str, ["research", "study", "density", "--dataset", "digits", *sizes, "--out", folders[-1]])))
            == 0
        )
    return folders


def test_rows_are_those_that_all_studies_have_by_ascending_units(studies):
    rows = rows_by_size(read_sizes(studies))
    assert [str(one) for one in rows] == ["dense", "ms1, θ 0.1"]
    assert all(list(by_size) == [4, 8] for by_size in rows.values())
    written = {run["storage"]: run for run in json.loads((studies[0] / "density.json").read_text())["runs"]}
    assert {one.storage: by_size[8]["footprint"] for one, by_size in rows.items()} == {
        name: one["footprint"] for name, one in written.items()
    }


def test_the_page_has_a_table_for_each_measure_and_every_command(studies, tmp_path, capsys):
    assert run(["research", "study", "sizes", *map(str, studies), "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "sizes.md").read_text()
    assert capsys.readouterr().out == page + "\n"
    for table in (
        "test accuracy %",
        "intermediates kept",
        "δ that is not zero",
        "x and h that are sent",
        "products left",
    ):
        assert f"| {table} | H 4 | H 8 |" in page
    assert "| dense | 1.000 | 1.000 |" in page and page.count("    eta-lstm research study density") == 2
    assert (tmp_path / "out" / "sizes.svg").exists() == can_draw()


def test_studies_that_cannot_be_compared_are_refused(studies, tmp_path):
    with pytest.raises(RunError, match="another of these studies has 8 units, too"):
        read_sizes([studies[0], studies[0]])
    study = json.loads((studies[1] / "density.json").read_text())
    study["settings"]["epochs"] = 3
    (tmp_path / "density.json").write_text(json.dumps(study))
    with pytest.raises(RunError, match="must agree in epochs, got 1 and 3"):
        read_sizes([studies[0], tmp_path])
