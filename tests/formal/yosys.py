"""Stands in for Yosys' command line, which pyosys does not bring: the two forms in which sby calls it."""

import sys

from pyosys import libyosys as ys


def main(arguments: list[str]) -> None:
    """Run ``-ql LOG SCRIPT`` or ``-p COMMAND``."""
    design = ys.Design()
    match arguments:
        case ["-ql", log, script]:
            ys.run_pass(f"tee -q -o {log} script {script}", design)
        case ["-p", command]:
            ys.run_pass(command, design)
        case _:
            sys.exit(f"expected -ql LOG SCRIPT or -p COMMAND, got {arguments}")


if __name__ == "__main__":
    main(sys.argv[1:])
