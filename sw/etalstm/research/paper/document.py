"""A page of headings, paragraphs, tables and figures, as Markdown and as HTML."""

import base64
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the page's."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of plain text."""

    text: str


_PROSE = tomllib.loads(Path(__file__).with_name("prose.toml").read_text(encoding="utf-8"))


def prose(name: str, /, **values) -> Paragraph:
    """Give a paragraph of ``prose.toml`` with the values that it names."""
    return Paragraph(_PROSE[name].format(**values))


@dataclass(frozen=True)
class Table:
    """A table: names of columns, and rows of as many texts."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row must have {len(self.columns)} cells, got {list(row)}")


@dataclass(frozen=True)
class Figure:
    """A picture: inside the HTML page, and beside the other page as the file ``NAME.svg``."""

    name: str
    svg: str
    caption: str


Block = Heading | Paragraph | Table | Figure
_PAGE = Template(Path(__file__).with_name("document.html").read_text(encoding="utf-8"))


def markdown(blocks: Sequence[Block]) -> str:
    """Write a page that needs the files of its figures."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def html(blocks: Sequence[Block]) -> str:
    """Write a page that needs no other file. The first block is the title; the list of contents follows it."""
    title, *sections = [block for block in blocks if isinstance(block, Heading)]
    named = [one for one in sections if one.level == 2]
    links = "".join(f'<li><a href="#{_anchor(one)}">{escape(one.text)}</a></li>' for one in named)
    contents = f'<nav aria-label="Contents"><ol>{links}</ol></nav>'
    body = "\n".join((_html(title), contents, *map(_html, blocks[1:])))
    return _PAGE.substitute(title=escape(title.text), body=body)


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {block.text}"
    if isinstance(block, Paragraph):
        return block.text
    if isinstance(block, Figure):
        return f"![{block.caption}]({block.name}.svg)"
    lines = [block.columns, ["---"] * len(block.columns), *block.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _anchor(heading: Heading) -> str:
    return re.sub(r"\W+", "-", heading.text.lower()).strip("-")


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="{_anchor(block)}">{escape(block.text)}</h{block.level}>'
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Figure):  # as an image: names within one picture do not meet those of another
        data = base64.b64encode(block.svg.encode()).decode()
        caption = escape(block.caption)
        image = f'<img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in block.columns)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in block.rows]
    return "<table>" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
