"""The unit and the bench of docs/contributing/hardware.md, as a reader would copy them."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "hardware.md"


def test_the_unit_of_the_page_passes_its_bench(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    unit, bench = (part.split("```")[0] for part in PAGE.read_text(encoding="utf-8").split("```python\n")[1:])
    names: dict = {}
    exec(compile(unit + bench, str(PAGE), "exec"), names)
    names["test_counts_the_cycles_in_which_a_stream_waits"]()
    assert (tmp_path / "unit.vcd").stat().st_size > 0
