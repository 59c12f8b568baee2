"""`python -m ottla.launcher`: starts daemons on request, for `ottla.testing` (composition).

Imports take most of a daemon's start. This process does them once, and each daemon is forked from
it. It reads one JSON command per line from standard input and writes one JSON reply per command to
standard output, besides a line for each daemon that exits. At the end of its input it kills all
daemons and exits, so that none outlives the program that wanted it.
"""

import gc
import sys

import speedups.finder
import speedups.import_path


def main() -> int:
    """Serve commands until the end of standard input; return the exit code."""
    # As in `python -m broker`: must precede every other import of broker code.
    speedups.import_path.prefer_our_packages()
    speedups.finder.enable()
    gc.disable()
    # Nor may structlog load rich, which no daemon uses.
    with speedups.import_path.hidden("rich"):
        from ottla.launcher.children import Children
        from ottla.launcher.commands import Commands

    # The children share these objects' memory, which collections would copy.
    gc.freeze()
    Commands(Children()).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
