"""`python -m scripts.demo [FILE]`: Ottla's main functions end to end (composition).

First, a file goes through one broker and back. Then three brokers lose their controller under load.
Finally they compact a topic, and Spark audits its files. Each step prints the commands that it
runs, which a user could type. The exit code is 1 if received data differ from the sent data, or if
a log is inconsistent.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.demo.auditing import audit_a_compacted_topic
from scripts.demo.cluster import running_cluster
from scripts.demo.console import DemoError, console, title
from scripts.demo.daemon import BrokerFailedError
from scripts.demo.failover import lose_a_controller
from scripts.demo.transfer import transfer_a_file

EXIT_INTERRUPTED: Final = 130


def main(arguments: Sequence[str]) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="lines to send")
    chosen = parser.parse_args(arguments).file
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as temporary:
        try:
            transfer_a_file(Path(temporary), chosen)
            console.print(
                "\nEverything that was sent came back, byte for byte.", style="bold green"
            )
            title("Three brokers and a coordinator")
            with running_cluster(Path(temporary)) as cluster:
                lose_a_controller(cluster)
                audit_a_compacted_topic(cluster, Path(temporary))
        except (DemoError, BrokerFailedError) as error:
            console.print(f"\nFAILED: {error}", style="bold red")
            return 1
        except KeyboardInterrupt:
            console.print("\nInterrupted.", style="bold red")
            return EXIT_INTERRUPTED
    console.print(
        "\nThe controller died, and no acknowledged record was lost or read twice.",
        style="bold green",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
