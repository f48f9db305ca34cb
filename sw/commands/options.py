"""Options that several commands read alike."""


def number_or_off(name: str, text: str) -> float | None:
    """Read an option that is a number, or ``off``; :class:`etalstm.train.settings.Settings` looks at the number."""
    if text == "off":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{name} must be a number, or off, got {text!r}") from error
