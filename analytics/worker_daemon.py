"""Spark's daemon of Python workers on this machine, with pyspark from its compiled files (edge).

Spark puts zips of pyspark and py4j first on the import path of its workers, and Python compiles
modules from a zip again in every process: 1.5 s for the first task. This daemon prefers the
installed pyspark and py4j, which an audit on this machine always has.
"""

import gc
import sys
from typing import Final

NEW_OBJECTS_PER_COLLECTION: Final = 100_000
"""Audits create millions of objects without cycles; by default, looking for cycles among them takes
a tenth of the time of an audit of short transactions."""


def main() -> None:
    """Run the daemon; Spark sends its commands through standard input."""
    # The zips move to the end but stay: some Pythons have no other pyspark.
    sys.path.sort(key=lambda entry: entry.endswith(".zip"))
    from pyspark.daemon import manager

    gc.set_threshold(NEW_OBJECTS_PER_COLLECTION)
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
