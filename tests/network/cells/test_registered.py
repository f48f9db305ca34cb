"""Cells of other packages: registered, or found by their entry points."""

import sys
from dataclasses import astuple, replace

import pytest

from etalstm.cli.main import run
from etalstm.network import cells
from etalstm.network.cells import cell_named, cell_names, register
from etalstm.network.shape import NetworkShape
from tests.network.cells.coupled import COUPLED, PAGE, SOURCE


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setattr(cells, "CELLS", dict(cells.CELLS))


def install(folder, monkeypatch, name="cifg", value="my_cells:CIFG"):
    """Make a package with an entry point, as it is found when it is installed."""
    (folder / "my_cells.py").write_text(SOURCE, encoding="utf-8")
    information = folder / "my_cells-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my_cells\nVersion: 1\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(f"[etalstm.network.cells]\n{name} = {value}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "my_cells", raising=False)


def test_a_registered_cell_is_named_as_those_of_the_package():
    with pytest.raises(ValueError, match="cell must be one of lstm, hlstm, got 'cifg'"):
        NetworkShape(5, 6, 1, "cifg")
    assert register(COUPLED) is register(COUPLED) is cell_named("cifg")
    assert NetworkShape(5, 6, 1, "cifg").declared is COUPLED
    assert cell_names() == ["lstm", "hlstm", "cifg"]


def test_a_name_belongs_to_one_cell():
    with pytest.raises(ValueError, match="there is another cell of the name 'lstm'"):
        register(replace(COUPLED, name="lstm"))


def test_a_cell_is_found_by_the_entry_point_of_its_package(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch)
    assert cell_names() == ["lstm", "hlstm", "cifg"]
    assert "my_cells" not in sys.modules
    found = cell_named("cifg")
    assert astuple(found) == astuple(COUPLED)
    assert register(COUPLED) is found


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("cifg", "no_cells:CIFG", "cell cifg cannot be loaded from no_cells:CIFG: No module named 'no_cells'"),
        ("cifg", "my_cells:MISSING", "cell cifg cannot be loaded from my_cells:MISSING: .*MISSING"),
        ("cifg", "my_cells:arrays", "my_cells:arrays must be a Cell of the name 'cifg', got <function arrays"),
        ("coupled", "my_cells:CIFG", "my_cells:CIFG must be a Cell of the name 'coupled', got Cell"),
    ],
)
def test_an_entry_point_that_gives_no_such_cell_is_refused(tmp_path, monkeypatch, name, value, message):
    install(tmp_path, monkeypatch, name, value)
    with pytest.raises(ValueError, match=message):
        cell_named(name)


def test_a_cell_of_another_package_has_the_same_words_on_golden_and_on_the_verilog(tmp_path, monkeypatch, capsys):
    """The command of docs/contributing/cell.md."""
    install(tmp_path, monkeypatch)
    command = next(line.split() for line in PAGE.read_text(encoding="utf-8").splitlines() if "verify compare" in line)
    assert command[-1] == "cifg"
    assert run(command[1:]) == 0
    assert "1,706 words of 26 tensors compared, 0 differ" in capsys.readouterr().out
