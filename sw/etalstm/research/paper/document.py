"""A page of headings, paragraphs, tables and figures, as Markdown and as HTML."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the page's."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of plain text."""

    text: str


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
    """A picture, only on the HTML page."""

    svg: str
    caption: str


Block = Heading | Paragraph | Table | Figure

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.85rem; }
td, th { border-bottom: 1px solid #bbb; padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; }
figure { margin: 1.5rem 0; break-inside: avoid; } img { max-width: 100%; } figcaption { font-size: 0.9rem; }
"""


def markdown(blocks: Sequence[Block]) -> str:
    """Write a page without its figures."""
    return "\n\n".join(_markdown(block) for block in blocks if not isinstance(block, Figure)) + "\n"


def html(blocks: Sequence[Block]) -> str:
    """Write a page that needs no other file."""
    title = next(block.text for block in blocks if isinstance(block, Heading))
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    body = "\n".join(_html(block) for block in blocks)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _markdown(block: Heading | Paragraph | Table) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {block.text}"
    if isinstance(block, Paragraph):
        return block.text
    lines = [block.columns, ["---"] * len(block.columns), *block.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
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
