"""Checks what was read from a file against a declared type, and names file and field of what does not fit."""

from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from etalstm.errors import EtaLstmError
from etalstm.host.toml import TomlFile

Checked = TypeVar("Checked")


def check(kind: type[Checked], value: Any, source: object, error: type[EtaLstmError], name: str = "") -> Checked:
    """Give `value` as a `kind`, no type converted into another.

    Parameters
    ----------
    kind : type
        A pydantic model or any other annotation.
    value : object
        Made of dicts, lists, numbers, texts, truths and None.
    source : object
        What it was read from, for the message.
    error : type
        Raised if it does not fit: the message names the source, the first field that is wrong, and its value.
    name : str
        Of `value` itself, where it is a field.
    """
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as found:
        first = found.errors(include_url=False)[0]
        place = ".".join(str(part) for part in ([name] if name else first["loc"]))
        if first["type"] == "missing":
            raise error(f"{source}: {place} is missing") from found
        if first["type"] == "extra_forbidden":
            raise error(f"{source}: {place} is unknown here") from found
        got = repr(first["input"])
        raise error(f"{source}: {place or 'all of it'}: {first['msg']}, got {got[:80]}") from found


def check_fields(kind: type, table: Any, origin: object, error: type[EtaLstmError]) -> dict:
    """Give a table of some fields of a dataclass, each checked as :func:`check` does; lists stand for tuples.

    Where the origin is a :class:`etalstm.host.toml.TomlFile`, messages name the line of a field.
    """
    check(dict[str, Any], table, origin, error)
    kinds, checked = get_type_hints(kind), {}
    for name, value in table.items():
        source = origin.place(name) if isinstance(origin, TomlFile) else origin
        if name not in kinds:
            near = "".join(f"; is it {other}?" for other in get_close_matches(name, kinds, 1))
            raise error(f"{source}: {name} is unknown here{near}")
        checked[name] = check(kinds[name], tuple(value) if isinstance(value, list) else value, source, error, name)
    return checked
