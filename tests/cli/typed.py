"""Commands as a user types them."""

from etalstm.cli.main import run


def output(capsys, *arguments):
    """Run a command; give its exit code, and what it printed to both streams."""
    code = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def sizes(i, h, l, b, t):
    """Give the options of a network's sizes and of an iteration's."""
    return ["--input", i, "--hidden", h, "--layers", l, "--batch", b, "--steps", t]
