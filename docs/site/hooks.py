"""What the documentation site takes from the code when it is built, and what is checked of its pages.

- The pages of the command line are written from the typer application itself, a page for each command.
- ``<!-- presets -->`` becomes the table of the presets, ``<!-- settings -->`` that of a training run's settings,
  ``<!-- roofline -->`` that of ``eta-lstm research roofline``,
  ``<!-- study FOLDER | RUN | … -->`` that of runs of a study, in a folder of ``docs/density``, or of ``docs``.
- A link to a file outside ``docs/`` becomes one to the repository that pyproject.toml names.
- In these pages and in README.md a link, a path in backquotes or an ``eta-lstm`` command must lead somewhere.
"""

import logging
import re
import tomllib
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import typer
from mkdocs.structure.files import File

from etalstm.cli.application import application
from etalstm.cli.research.roofline import roofline, rows
from etalstm.research.paper.roofline import HEADINGS
from etalstm.research.studies.several import table_of
from etalstm.research.studies.study import read_study, summarise
from etalstm.research.studies.subject import SCORES, score_name
from etalstm.train.declared import declared
from etalstm.train.settings import PANELS, Settings
from etalstm_hw.config import PRESETS

ROOT = Path(__file__).parents[2]
FRONT = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages outside of ``docs/`` that are checked."""
COMMANDS = "reference/commands"
LOG = logging.getLogger("mkdocs.hooks.site")
FOLDERS = "sw|hw|sim|boards|tests|examples"
_LINK = re.compile(r"(?<=\]\()([^)\s#]*)(#[^)\s]*)?(?=\))")
_PATH = re.compile(rf"`((?:{FOLDERS})/[\w./*-]*)`")
_CALL = re.compile(r"(?:^ *|`|\$ )(?:\.venv/bin/)?eta-lstm ([a-z-][^`\n|]*)", re.MULTILINE)
_STUDY = re.compile(r"<!-- study (.+?) -->")
_NO_LINK = re.compile(r"\]\[(?=\w+\])(?=[^`\n]*(?:`[^`\n]*`[^`\n]*)*$)", re.MULTILINE)  # [a][b] outside of code
_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr|exc):\s*(<code>)[~.]?")
_CODE_PATH = re.compile(rf"<code>((?:{FOLDERS})/[^<]*)</code>")
_STUDY_PAGE = re.compile(r"(density|ms2|compress)/\w+/")
_LAUNCHERS = {"launch"}  # takes another command after `--`


# The command line


def _shown(command) -> dict:
    return dict(getattr(command, "commands", {}))


def _cell(text: str) -> str:
    """Write a text as a cell of a table."""
    return re.sub(r"([|*_<\[])", r"\\\1", " ".join(text.split()))


def _paragraphs(text: str | None) -> str:
    return re.sub(r"``(.+?)``", r"`\1`", text or "").strip()


def _describe(command, name: str, context, level: int) -> Iterator[str]:
    """Write a command's heading, usage, help and options, then those of its own commands."""
    context = typer.Context(command, info_name=name, parent=context)
    yield f"{'#' * level} `{context.command_path}`\n"
    yield _paragraphs(command.help) + "\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and "--help" not in parameter.opts:
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or "Options", []).append(record)
    for panel, records in panels.items():
        yield f"| {panel} | |\n|---|---|"
        yield from (f"| `{names}` | {_cell(text)} |" for names, text in records)
        yield ""
    for inner_name, inner in _shown(command).items():
        yield from _describe(inner, inner_name, context, level + 1)


def _command_pages() -> dict[str, str]:
    """Give the text of each command's page, and of the overview, by file."""
    root = typer.Context(APPLICATION, info_name="eta-lstm")
    lines = ["# `eta-lstm`\n", _paragraphs(APPLICATION.help) + "\n"]
    lines += ["Made from the program itself; `eta-lstm COMMAND --help` prints the same.\n", "| command | |\n|---|---|"]
    pages = {}
    for name, command in _shown(APPLICATION).items():
        pages[f"{COMMANDS}/{name}.md"] = "\n".join(_describe(command, name, root, 1))
        lines.append(f"| [`{name}`]({name}.md) | {_cell(_paragraphs(command.help).partition(chr(10) * 2)[0])} |")
        for inner_name, inner in _shown(command).items():
            link = f"{name}.md#eta-lstm-{name}-{inner_name}"
            text = _cell(_paragraphs(inner.help).partition("\n\n")[0])
            lines.append(f"| [`{name} {inner_name}`]({link}) | {text} |")
    return {f"{COMMANDS}/index.md": "\n".join(lines) + "\n", **pages}


def _unknown_words(call: str) -> list[str]:
    """Give the commands and options that a call of ``eta-lstm`` names and the program has not."""
    command, options, unknown = APPLICATION, set(), []
    named = True  # until the first option: what follows may be its value
    for word in call.split():
        word = word.strip("`,;.:)")
        inner = getattr(command, "commands", {}) if named else {}
        if word in inner:
            command = inner[word]
            options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        elif word == "--" and command.name in _LAUNCHERS:
            command, named = APPLICATION, True
        elif inner and re.fullmatch(r"[a-z][a-z-]+", word):
            return [*unknown, word]
        elif word.startswith("-"):
            named = False
            if word.startswith("--") and word != "--" and word.partition("=")[0] not in options | _OF_ALL:
                unknown.append(word)
    return unknown


APPLICATION = application()
_OF_ALL = {"--help", "--debug", "--version"}


# Tables


def _presets() -> str:
    names = list(PRESETS)
    rows = [f"| | {' | '.join(f'`{name}`' for name in names)} |", "|---|" + "---|" * len(names)]
    for member in PRESETS[names[0]].as_dict():
        values = [PRESETS[name].as_dict()[member] for name in names]
        rows.append(f"| `{member}` | {' | '.join(f'{value:,}' for value in values)} |")
    rows.append(f"| processing elements | {' | '.join(f'{PRESETS[name].pes:,}' for name in names)} |")
    return "\n".join(rows)


def _settings() -> str:
    rows = []
    for panel in PANELS:
        rows.append(f"| **{panel}** | | |")
        for one in declared(Settings).values():
            if one.setting.panel == panel:
                default = one.default if one.setting.shown is None else one.setting.shown
                shown = (
                    ""
                    if default in (None, "")
                    else f"`{str(default).lower() if default in (True, False) else default}`"
                )
                rows.append(f"| `{one.name}` | {shown} | {_cell(one.setting.help)} |")
    return "\n".join(["| setting | default | |", "|---|---|---|", *rows])


def _with_tables(markdown: str) -> str:
    """Fill in the tables of presets and settings where a page wants them."""
    for name, table in (("presets", _presets), ("settings", _settings), ("roofline", _roofline)):
        if (marker := f"<!-- {name} -->") in markdown:
            markdown = markdown.replace(marker, table())
    return markdown


def _roofline() -> str:
    """Write what ``eta-lstm research roofline`` prints by default."""
    found = rows(**{name: parameter.default for name, parameter in signature(roofline).parameters.items()})
    return "\n".join(table_of(HEADINGS, found))


def _study(match) -> str:
    """Write a table of some runs of a study; warns of a run that it has not."""
    folder, *names = (part.strip() for part in match[1].split("|"))
    where = Path(folder) if "/" in folder else Path("density", folder)
    study = read_study(ROOT / "docs" / where / "density.json")
    rows = {row["name"]: row for row in summarise(study)}
    score = SCORES[score_name(study["settings"])]
    lines = [f"| run | seeds | {score.heading} | validation | intermediates | δ | x, h sent |", "|---|" + "---|" * 6]
    for name in names:
        if name not in rows:
            LOG.warning("study %s has no run %r; it has: %s", folder, name, "; ".join(rows))
            continue
        row = rows[name]
        text = score.text(row["score"], *([row["deviation"]] if row["seeds"] > 1 else []))
        costs = " | ".join(f"{row[cost]:.3f}" for cost in ("footprint", "delta_density", "input_density"))
        validation = "–" if row["validation"] is None else score.text(row["validation"])
        lines.append(f"| {name} | {row['seeds']} | {text} | {validation} | {costs} |")
    return "\n".join(lines)


# What MkDocs calls


def on_config(config):
    """Take the repository's address from pyproject.toml; put the commands' pages where the navigation names them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.repo_url, config.repo_name = project["urls"]["Repository"], "Repository"
    pages = [f"{COMMANDS}/index.md", *({name: f"{COMMANDS}/{name}.md"} for name in _shown(APPLICATION))]

    def filled(item):
        if isinstance(item, list):
            return [filled(inner) for inner in item]
        if isinstance(item, dict):
            return {title: pages if inner == COMMANDS else filled(inner) for title, inner in item.items()}
        return item

    config.nav = filled(config.nav)
    return config


def on_files(files, config):
    """Add the pages of the command line."""
    for path, text in _command_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Fill in tables, lead links out of ``docs/`` to the repository, and check paths and commands."""
    where = page.file.src_uri
    if not where.startswith(COMMANDS):
        markdown = _STUDY.sub(_study, _with_tables(markdown))
        _check_text(markdown, f"docs/{where}")
    folder = (Path(config.docs_dir) / where).parent
    markdown = _NO_LINK.sub(r"]\\[", markdown)
    return _LINK.sub(lambda match: _outside(match, folder, where, config), markdown)


def _outside(match, folder: Path, where: str, config) -> str:
    """Give the address in the repository of a link that leads out of ``docs/``; other links stay."""
    target, anchor = match[1], match[2] or ""
    path = (folder / target).resolve()
    if not target.startswith("../") or path.is_relative_to(config.docs_dir):
        return match[0]
    if not path.exists():
        LOG.warning("docs/%s links to %s, which there is not", where, target)
    kind = "tree" if path.is_dir() else "blob"
    return f"{config.repo_url.rstrip('/')}/{kind}/main/{path.relative_to(ROOT)}{anchor}"


def on_page_content(html, page, config, files):
    """Show Sphinx's roles as code, let long paths break, and give a study's wide tables the width that they need."""
    html = _CODE_PATH.sub(lambda match: f"<code>{match[1].replace('/', '/<wbr>')}</code>", _ROLE.sub(r"\1", html))
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    if not _STUDY_PAGE.match(page.file.src_uri):
        return html
    page.meta["hide"] = ["toc"]
    return f'<div class="study">{html}</div>'


def on_env(env, config, files):
    """Check the pages outside of ``docs/``, whose links lead into it."""
    for name in FRONT:
        text = (ROOT / name).read_text(encoding="utf-8")
        _check_text(text, name)
        for target, anchor in ((match[1], match[2]) for match in _LINK.finditer(text)):
            if "://" in target:
                continue
            if target and not (ROOT / target).exists():
                LOG.warning("%s links to %s, which there is not", name, target)
            file = files.get_file_from_path(target.removeprefix("docs/"))
            if anchor and file and file.page and anchor[1:] not in set(_anchors(file.page.toc)):
                LOG.warning("%s links to %s%s, which has no such heading", name, target, anchor)
    return env


def _anchors(items) -> Iterator[str]:
    for item in items:
        yield item.id
        yield from _anchors(item.children)


def _check_text(text: str, where: str) -> None:
    """Warn of paths that lead nowhere, and of commands and options that the program has not."""
    for path in _PATH.findall(text):
        if "NAME" not in path and not any(ROOT.glob(path.rstrip("/"))):
            LOG.warning("%s names `%s`, which there is not", where, path)
    for call in _CALL.findall(text):
        for word in _unknown_words(call):
            LOG.warning("%s: in 'eta-lstm %s' there is no %s", where, call.strip(), word)
