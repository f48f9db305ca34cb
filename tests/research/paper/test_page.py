"""The page of the comparison."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from etalstm.research.paper import document
from etalstm.research.paper.claims import CLAIMS
from etalstm.research.paper.document import Figure, Heading, Paragraph, Table, html, markdown
from etalstm.research.paper.energy import COEFFICIENTS
from etalstm.research.paper.page import page
from etalstm.research.paper.study import as_dict
from tests.research.paper.compared import compared

PROSE = Path(document.__file__).with_name("prose.toml")
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def blocks():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    return list(page(compared(), "eta-lstm research paper --out DIR"))


def test_every_claim_is_on_the_page_with_what_came_out(blocks):
    found, reasons = [block for block in blocks if isinstance(block, Table) and block.columns[0] == "claim"]
    for claim in CLAIMS:
        row, reason = (next(row for row in table.rows if row[0] == claim.name) for table in (found, reasons))
        assert f"{claim.average:g}" in row[1] and row[5] in ("yes", "no")
        assert reason == [claim.name, claim.why, claim.change] and claim.why and claim.change


def test_the_page_says_what_a_board_lacks_and_what_is_assumed(blocks):
    text = markdown(blocks)
    assert "The V100 has 15.7" in text and "Nobody has measured it" in text
    assert "exchange is assumed to cost nothing" in text and "(does not fit)" in text and "| 2, 5 |" in text
    assert "Dyn-Arch 2.00 (2.00 to 2.00), Static-Arch 3.00 (3.00 to 3.00), LSTM-Inf 2.50" in text
    for one in COEFFICIENTS:
        assert f"| {one.name} |" in text


def test_figures_are_inside_one_page_and_beside_the_other(blocks):
    figures = [block for block in blocks if isinstance(block, Figure)]
    assert len(figures) == len({one.name for one in figures}) == 9
    text = html(blocks)
    assert text.count("data:image/svg+xml;base64,") == 9
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert re.findall(r"]\((.*)\)", markdown(blocks)) == [f"{one.name}.svg" for one in figures]
    assert blocks[1] is figures[0] and figures[0].name == "headline"


def test_the_list_of_contents_leads_to_every_section(blocks):
    text = html(blocks)
    links = re.findall(r'<a href="#(.+?)">(.+?)</a>', text)
    assert [title for _, title in links] == [block.text for block in blocks if getattr(block, "level", 0) == 2]
    anchors = re.findall(r'<h\d id="(.+?)">', text)
    assert len(anchors) == len(set(anchors)) and {anchor for anchor, _ in links} < set(anchors)
    assert text.index("<nav") < text.index("<figure>") < text.index("<p>")


def test_every_paragraph_of_the_file_is_on_a_page(blocks):
    known = tomllib.loads(PROSE.read_text(encoding="utf-8"))
    code = "".join(path.read_text(encoding="utf-8") for path in PROSE.parent.glob("*.py"))
    assert set(re.findall(r'\bprose\(\s*"(\w+)"', code)) == known.keys()


def test_texts_are_escaped():
    blocks = [Heading("a < b", 1), Paragraph("<script>"), Table(["x|y"], [["&"]])]
    assert "<script>" not in html(blocks) and "&lt;script&gt;" in html(blocks)
    assert "| x/y |\n| --- |\n| & |" in markdown(blocks)
    with pytest.raises(ValueError, match="2 cells"):
        Table(["a", "b"], [["only one"]])


def test_everything_is_plain_values_in_the_file():
    read = json.loads(json.dumps(as_dict(compared())))
    assert {row["case"] for row in read["rows"]} >= {"baseline", "eta"}
    assert all(row["milliseconds"]["how"] for row in read["rows"])
    assert len(read["claims"]) == len(CLAIMS) and all(claim["found"] for claim in read["claims"])


def test_the_models_error_on_the_page_is_the_documented_one(blocks):
    documented = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    (stated,) = re.findall(r"[\d.]+ % at most over the \d+ configurations", documented.replace("\n", " "))
    assert stated in markdown(blocks)
