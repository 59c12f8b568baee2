"""Edge: Spark's daemon of Python workers on this machine, which finds pyspark compiled.

Spark puts pyspark and py4j as zips before everything else that its workers import, and what comes
out of a zip is compiled anew in each process: a second and a half for the first task. Where they
are installed too, as they are beside an audit that runs here, that is what workers get.
"""

import sys


def main() -> None:
    """Run the daemon; what Spark says to it comes through standard input."""
    # Behind, not away: a Python that only Spark gave a pyspark still has one.
    sys.path.sort(key=lambda entry: entry.endswith(".zip"))
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
