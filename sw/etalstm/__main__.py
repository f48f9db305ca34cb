"""``python -m etalstm``: the command line."""

from etalstm.cli.main import main

main()
