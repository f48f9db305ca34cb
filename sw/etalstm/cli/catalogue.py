"""What is known of commands without importing any: summaries, earlier names, what a misspelt name may mean."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType

from etalstm.cli import TREE, Group

PROGRAM = "eta-lstm"
HERE = "etalstm.cli"
SHARING = ("options", "using", "work")  # modules whose options others use by name
MOST_NAMED = 3  # commands that have an option


def summary(name: str, entry: str | Group) -> str:
    """Give the first sentence of a command's help. It is read from the source: nothing is imported."""
    text = entry.help if isinstance(entry, Group) else ""
    if not text:
        function = function_of(entry.module if isinstance(entry, Group) else entry, name)
        text = " ".join((ast.get_docstring(function) or "").partition("\n\n")[0].split())
    return text.partition(". ")[0].removesuffix(".")


def function_of(module: str, name: str) -> ast.FunctionDef:
    """Give the source of a command's function."""
    return next(node for node in _source(f"{HERE}.{module}") if isinstance(node, ast.FunctionDef) and node.name == name)


@cache
def _source(module: str) -> list[ast.stmt]:
    path = Path(__file__).parents[HERE.count(".")].joinpath(*module.split(".")[1:]).with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8")).body


def unknown_command(name: str, path: str, group: Group) -> str:
    """Say that a group has no such command, and which one is meant."""
    elsewhere = [place for place, _ in _commands(TREE, PROGRAM) if place.rsplit(" ", 1)[-1] == name]
    near = [f"{path} {one}" for one in get_close_matches(name, group.commands, 1)]
    if not near and not elsewhere:
        names = {place.rsplit(" ", 1)[-1]: place for place, _ in _commands(TREE, PROGRAM)}
        near = [names[one] for one in get_close_matches(name, names, 1)]
    hint = f"; did you mean {' or '.join(elsewhere or near)}?" if elsewhere or near else f"; see {path} --help"
    return f"{path} has no command {name!r}{hint}"


def unknown_option(name: str, path: str, own: Sequence[str]) -> str:
    """Say that a command has no such option, and which commands have it; if none has, which of its own may be meant."""
    others = [place for place, function in _commands(TREE, PROGRAM) if name in _options(*function)]
    if others:
        more = f" and {len(others) - MOST_NAMED} other commands" if len(others) > MOST_NAMED else ""
        return f"{path} has no option {name}, which is one of {', '.join(others[:MOST_NAMED])}{more}"
    near = get_close_matches(name, own, 1)
    return f"{path} has no option {name}; {f'did you mean {near[0]}?' if near else f'see {path} --help'}"


def _commands(group: Group, path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Give the commands by what is typed, each with its module and function."""
    for name, entry in group.commands.items():
        place = f"{path} {name}"
        if not isinstance(entry, Group):
            yield place, (entry, name)
            continue
        if entry.module:
            yield place, (entry.module, name)
        yield from _commands(entry, place)


def _options(module: str, name: str) -> set[str]:
    """Read the options of a command from its source: those that it names, else those that its parameters give."""
    declared, found = _declarations(module), set()
    function = function_of(module, name)
    for decorator in function.decorator_list:
        match decorator:  # with_settings(Settings, PANELS), or with_settings(Settings, PANELS, NAMES)
            case ast.Call(args=[ast.Name(id=kind), _, *names]):
                settings = _settings(f"{HERE}.{module}", kind)
                wanted = [text for node in names for text in _texts(node, declared)]
                found |= {settings[name] for name in " ".join(wanted).split() or settings}
    for parameter in function.args.args:
        annotation = parameter.annotation
        match annotation:  # Steps, or options.Steps
            case ast.Name(id=shared) | ast.Attribute(attr=shared):
                annotation = declared.get(shared, annotation)
        texts = set(_texts(annotation)) if annotation else set()
        named = {text for text in texts if text.startswith("-") and " " not in text}
        found |= named or {f"--{parameter.arg.replace('_', '-')}"}
    return found


def _texts(node: ast.AST, declared: Mapping[str, ast.expr] = MappingProxyType({})) -> Iterator[str]:
    """Give the strings in an expression, and those of the names in it that are declared."""
    for part in ast.walk(node):
        match part:
            case ast.Constant(value=str(text)):
                yield text
            case ast.Name(id=name) if name in declared:
                yield from _texts(declared[name])


def _settings(module: str, kind: str) -> dict[str, str]:
    """Read the options that a dataclass of settings declares, and its bases, by the settings' names."""
    imports = [node for node in _source(module) if isinstance(node, ast.ImportFrom)]
    place = next((node.module or "" for node in imports if kind in [alias.name for alias in node.names]), module)
    declared = next(node for node in _source(place) if isinstance(node, ast.ClassDef) and node.name == kind)
    found: dict[str, str] = {}
    for base in declared.bases:
        found |= _settings(place, base.id) if isinstance(base, ast.Name) else {}
    for node in declared.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(keywords=keywords)):
                named = [text for one in keywords if one.arg == "option" for text in _texts(one.value)]
                found[name] = named[0] if named else f"--{name.replace('_', '-')}"
    return found


def _declarations(module: str) -> dict[str, ast.expr]:
    """Give the options that a module may use by name: its own, and those of the modules that share theirs."""
    found = {}
    for node in (node for source in (*SHARING, module) for node in _source(f"{HERE}.{source}")):
        match node:
            case ast.Assign(targets=[ast.Name(id=name), *_], value=value):
                found[name] = value
    return found


NEW_NAMES = {
    "trace": "model trace",
    "model --check": "model check",
    "plan --check": "plan check",
    "report resources": "hw resources",
    "compare": "verify compare",
    **{name: f"hw {name}" for name in ["verilog", "build", "program", "report", "contract", "selftest"]},
    **{
        f"bench {name}": f"verify {name}"
        for name in ["arithmetic", "activation", "faults", "programs", "coverage", "endurance"]
    },
    **{name: f"research {name}" for name in ["paper", "study", "compress", "translate", "profile"]},
    **{f"bench {name}": f"research {name}" for name in ["reduced", "layout", "attention"]},
}
"""By old name the new one. An option stands anywhere behind its command's name, the other words at the beginning."""


def renamed(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Give the arguments with a command's new name, and the old name; None if the name is no old one.

    `arguments`: from the command's name on.
    """
    for old, new in NEW_NAMES.items():
        words = [word for word in old.split() if not word.startswith("-")]
        modes = [word for word in old.split() if word.startswith("-")]
        if [*arguments[: len(words)]] == words and all(mode in arguments for mode in modes):
            rest = [word for word in arguments[len(words) :] if word not in modes]
            return [*new.split(), *rest], old
    return [*arguments], None
