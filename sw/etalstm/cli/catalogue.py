"""Summaries of commands, their earlier names, and suggestions for misspelt names. No command is imported for them."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType

from etalstm.cli import TREE, Group

PROGRAM = "eta-lstm"
PACKAGE = "etalstm.cli"
SHARED = ("options", "using", "work")  # modules whose options other modules use by name
MOST_NAMED = 3  # of the commands that have an option


def summary(name: str, entry: str | Group) -> str:
    """Give the first sentence of a command's help. It is read from the source: nothing is imported."""
    text = entry.help if isinstance(entry, Group) else ""
    if not text:
        function = function_of(entry.module if isinstance(entry, Group) else entry, name)
        text = " ".join((ast.get_docstring(function) or "").partition("\n\n")[0].split())
    return text.partition(". ")[0].removesuffix(".")


def function_of(module: str, name: str) -> ast.FunctionDef:
    """Give the source of a command's function."""
    functions = (node for node in _source(f"{PACKAGE}.{module}") if isinstance(node, ast.FunctionDef))
    return next(node for node in functions if node.name == name)


@cache
def _source(module: str) -> list[ast.stmt]:
    path = Path(__file__).parents[PACKAGE.count(".")].joinpath(*module.split(".")[1:]).with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8")).body


def unknown_command(name: str, path: str, group: Group) -> str:
    """Write that a group has no such command, and which one was probably meant."""
    elsewhere = [typed for typed, _ in _commands(TREE, PROGRAM) if typed.rsplit(" ", 1)[-1] == name]
    near = [f"{path} {match}" for match in get_close_matches(name, group.commands, 1)]
    if not near and not elsewhere:
        names = {typed.rsplit(" ", 1)[-1]: typed for typed, _ in _commands(TREE, PROGRAM)}
        near = [names[match] for match in get_close_matches(name, names, 1)]
    hint = f"; did you mean {' or '.join(elsewhere or near)}?" if elsewhere or near else f"; see {path} --help"
    return f"{path} has no command {name!r}{hint}"


def unknown_option(name: str, path: str, own: Sequence[str]) -> str:
    """Write that a command has no such option, and which commands have it, or which of its own was probably meant."""
    others = [typed for typed, function in _commands(TREE, PROGRAM) if name in _options(*function)]
    if others:
        more = f" and {len(others) - MOST_NAMED} other commands" if len(others) > MOST_NAMED else ""
        return f"{path} has no option {name}, which is one of {', '.join(others[:MOST_NAMED])}{more}"
    near = get_close_matches(name, own, 1)
    return f"{path} has no option {name}; {f'did you mean {near[0]}?' if near else f'see {path} --help'}"


def _commands(group: Group, path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Give what a user types for each command, and the command's module and function."""
    for name, entry in group.commands.items():
        typed = f"{path} {name}"
        if not isinstance(entry, Group):
            yield typed, (entry, name)
            continue
        if entry.module:
            yield typed, (entry.module, name)
        yield from _commands(entry, typed)


def _options(module: str, name: str) -> set[str]:
    """Read the options of a command from its source. An option without a name of its own has its parameter's."""
    declared, found = _declarations(module), set()
    function = function_of(module, name)
    for decorator in function.decorator_list:
        match decorator:  # with_settings(Settings, PANELS), or with_settings(Settings, PANELS, NAMES)
            case ast.Call(args=[ast.Name(id=kind), _, *names]):
                settings = _settings(f"{PACKAGE}.{module}", kind)
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
    for inner in ast.walk(node):
        match inner:
            case ast.Constant(value=str(text)):
                yield text
            case ast.Name(id=name) if name in declared:
                yield from _texts(declared[name])


def _settings(module: str, kind: str) -> dict[str, str]:
    """Read the options that a dataclass of settings declares, and its bases, by the settings' names."""
    imports = [node for node in _source(module) if isinstance(node, ast.ImportFrom)]
    source = next((node.module or "" for node in imports if kind in [alias.name for alias in node.names]), module)
    declared = next(node for node in _source(source) if isinstance(node, ast.ClassDef) and node.name == kind)
    found: dict[str, str] = {}
    for base in declared.bases:
        found |= _settings(source, base.id) if isinstance(base, ast.Name) else {}
    for node in declared.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(keywords=keywords)):
                named = [text for keyword in keywords if keyword.arg == "option" for text in _texts(keyword.value)]
                found[name] = named[0] if named else f"--{name.replace('_', '-')}"
    return found


def _declarations(module: str) -> dict[str, ast.expr]:
    """Give the options that a module may use by name: its own, and those of the :data:`SHARED` modules."""
    found = {}
    for node in (node for source in (*SHARED, module) for node in _source(f"{PACKAGE}.{source}")):
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
"""New names by old names. An old name is matched at the beginning of the arguments, an option in it anywhere behind."""


def renamed(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Give the arguments with a command's new name, and the old name, or None if the arguments have no old name.

    `arguments`: from the command's name on.
    """
    for old, new in NEW_NAMES.items():
        words = [word for word in old.split() if not word.startswith("-")]
        modes = [word for word in old.split() if word.startswith("-")]
        if [*arguments[: len(words)]] == words and all(mode in arguments for mode in modes):
            rest = [word for word in arguments[len(words) :] if word not in modes]
            return [*new.split(), *rest], old
    return [*arguments], None
