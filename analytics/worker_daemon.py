"""Spark's daemon of Python workers on this machine, with pyspark from its compiled files (edge).

Spark puts zips of pyspark and py4j first on the import path of its workers, and Python compiles
modules from a zip again in every process: 1.5 s for the first task. This daemon prefers the
installed pyspark and py4j, which an audit on this machine always has.
"""

import sys


def main() -> None:
    """Run the daemon; Spark sends its commands through standard input."""
    # The zips move to the end but stay: some Pythons have no other pyspark.
    sys.path.sort(key=lambda entry: entry.endswith(".zip"))
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
