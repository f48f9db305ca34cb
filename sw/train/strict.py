"""Checks what was read from a file against a declared type, and names file and field of what does not fit."""

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from etalstm.errors import EtaLstmError

Checked = TypeVar("Checked")


def check(kind: type[Checked], value: Any, source: object, error: type[EtaLstmError], name: str = "") -> Checked:
    """Give `value` as a `kind`, no type converted into another.

    Parameters
    ----------
    kind : type
        A pydantic model, a dataclass, or any other annotation.
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
        if first["type"] == "value_error":  # from a check of our own, which names the value
            raise error(f"{source}: {first['ctx']['error']}") from found
        if first["type"] == "missing":
            raise error(f"{source}: {place} is missing") from found
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            raise error(f"{source}: {place} is unknown here") from found
        got = repr(first["input"])
        raise error(f"{source}: {place or 'all of it'}: {first['msg']}, got {got[:80]}") from found
