"""The daemon: `python -m broker [server.properties] [--override key=value]...` (composition).

Exit codes: 0 stopped when asked to, 1 could not start or go on, 2 bad usage or configuration.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import speedups.finder
import speedups.import_path

EXIT_OK: Final = 0
EXIT_USAGE: Final = 2
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one broker until it is asked to stop; return the exit code."""
    try:
        arguments = _parse_arguments(argv)
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else EXIT_OK
    # Starting makes many objects and no garbage: looking for some would take a tenth of the time.
    gc.disable()
    try:
        return _run(arguments)
    finally:
        gc.enable()


def _run(arguments: argparse.Namespace) -> int:
    # Before anything else of a broker is imported.
    speedups.import_path.prefer_our_packages()
    speedups.finder.enable()
    from broker.daemon import read_config, run
    from broker.errors import ConfigError
    from broker.log_setup import set_up_logging

    set_up_logging(arguments.log_level, sys.stderr)
    try:
        config = read_config(arguments.properties, arguments.override)
    except ConfigError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{arguments.properties}: {error.strerror}")
    return run(config)


def _refuse(reason: str) -> int:
    print(f"broker: {reason}", file=sys.stderr)  # noqa: T201 - for the person who typed it
    return EXIT_USAGE


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="broker",
        description="One Kafka-compatible broker.",
        epilog="example: python -m broker server.properties --override log.dirs=/var/lib/ottla",
    )
    parser.add_argument("properties", nargs="?", type=Path, help="server.properties, as Kafka's")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="key=value",
        help="set one key; wins over the file",
    )
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
