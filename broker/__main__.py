"""The daemon: `python -m broker [server.properties] [--override key=value]...` (composition).

Exit codes: 0 after a requested stop, 1 if the broker cannot start or keep running, 2 for bad usage
or a bad configuration.
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
    """Run one broker until a stop is requested; return the exit code."""
    try:
        arguments = _parse_arguments(argv)
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else EXIT_OK
    # A start creates many objects and no garbage: collection would take a tenth of its time.
    gc.disable()
    try:
        return _run(arguments)
    finally:
        gc.enable()


def _run(arguments: argparse.Namespace) -> int:
    # Must precede every other import of broker code.
    speedups.import_path.prefer_our_packages()
    speedups.finder.enable()
    # structlog loads it if it can, for logs on a terminal; that takes a tenth of the start.
    with speedups.import_path.hidden("rich"):
        from broker.daemon import read_config, run
        from broker.errors import ConfigError
        from broker.log_setup import set_up_logging

    levels = set_up_logging(arguments.log_level, sys.stderr)
    try:
        config = read_config(arguments.properties, arguments.override)
    except ConfigError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{arguments.properties}: {error.strerror}")
    return run(config, levels)


def _refuse(reason: str) -> int:
    print(f"broker: {reason}", file=sys.stderr)  # noqa: T201 - read by the operator
    return EXIT_USAGE


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="broker",
        description="One Kafka-compatible broker.",
        epilog="example: python -m broker server.properties --override log.dirs=/var/lib/ottla",
    )
    parser.add_argument("properties", nargs="?", type=Path, help="Kafka's server.properties file")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="key=value",
        help="set one key; takes precedence over the file",
    )
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
