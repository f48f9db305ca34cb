"""The command line: ``eta-lstm``.

Nothing is imported here but the standard library, so that Ctrl-C is heeded from the first moment on.
"""

import importlib
import os
import sys
from collections.abc import Sequence


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give the exit code: see :func:`etalstm.cli.application.run`.

    `arguments`: those of the process if not given.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    return importlib.import_module("etalstm.cli.application").run(arguments)


def _use_utf8() -> None:
    """Start the process again in Python's UTF-8 mode, if the locale has another encoding: paths are stored as UTF-8.

    The terminal keeps its encoding; what that does not have is shown as a question mark.
    """
    if sys.getfilesystemencoding() != "utf-8":
        shown = getattr(sys.stdout, "encoding", None) or "ascii"
        changed = {"PYTHONUTF8": "1", "PYTHONIOENCODING": f"{shown}:replace"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | changed)


def main() -> None:
    """Run the process's command, and exit with its code; the console script calls this."""
    try:
        _use_utf8()
        sys.exit(run())
    except KeyboardInterrupt:
        sys.exit(130)
