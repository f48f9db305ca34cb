"""Writes the TOML that the standard library reads: one flat table of numbers, texts, truths and lists of them."""

import json


def dump(table: dict, heading: str) -> str:
    """Write a table, a line for each key; keys whose value is None are left out.

    Parameters
    ----------
    table : dict from str to bool, int, float, str, None, or a sequence of these
    heading : str
        A comment above the first line.
    """
    lines = [f"{key} = {_value(value)}\n" for key, value in table.items() if value is not None]
    return f"# {heading}\n" + "".join(lines)


def _value(value) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # A basic string of TOML is one of JSON, but for the character DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return str(value).lower() if isinstance(value, bool) else repr(value)
