"""``python -m etalstm``: the command line."""

from etalstm.cli import main

main()
