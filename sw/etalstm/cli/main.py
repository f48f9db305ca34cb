"""The command line: ``eta-lstm``.

Nothing is imported here but the standard library, so that Ctrl-C is heeded from the first moment on.
"""

import importlib
import sys
from collections.abc import Sequence


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give the exit code: see :func:`etalstm.cli.application.run`.

    `arguments`: those of the process if not given.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    return importlib.import_module("etalstm.cli.application").run(arguments)


def main() -> None:
    """Run the process's command, and exit with its code; the console script calls this."""
    try:
        sys.exit(run())
    except KeyboardInterrupt:
        sys.exit(130)
