"""``eta-lstm hw contract``: registers and program format, for readers and for other programs."""

import json
from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.formats.reference.contract import describe
from etalstm.formats.reference.pages import header, markdown
from etalstm.host.durable import write_whole

COMMAND = "eta-lstm hw contract"
FILES = {"md": "contract.md", "h": "etalstm_contract.h", "json": "contract.json"}


def render(format: str) -> str:
    """Write the contract in a format. Raises ``ValueError`` if there is no such format."""
    described = describe()
    match format:
        case "md":
            return markdown(described, COMMAND)
        case "h":
            return header(described, COMMAND)
        case "json":
            return json.dumps(described, indent=1, ensure_ascii=False) + "\n"
    raise ValueError(f"format must be one of {', '.join(FILES)}, got {format!r}")


def contract(
    format: Annotated[str | None, Option(help="md, h or json: only that one")] = None,
    out: Annotated[Path | None, Option("-o", "--out", help="Folder [default: docs/contract], or that file")] = None,
) -> None:
    """Write the registers and the program format as a page, a C header and JSON."""
    if format is None:
        paths = {each: (out or Path("docs/contract")) / name for each, name in FILES.items()}
    elif out is None:
        print(render(format), end="")
        return
    else:
        paths = {format: out}
    for each, path in paths.items():
        text = render(each)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
        print(path)
