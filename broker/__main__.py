"""The daemon: `python -m broker [server.properties] [--override key=value]...` (composition).

Exit codes: 0 stopped when asked to, 1 could not start or go on, 2 bad usage or configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog
import uvloop

from broker.config import BrokerConfig, unknown_keys
from broker.errors import ConfigError, StartupError
from broker.log_setup import DEFAULT_LEVEL, LEVELS, set_up_logging
from broker.node import Node
from broker.properties import ENCODING, parse_overrides, parse_properties

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = structlog.get_logger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one broker until it is asked to stop; return the exit code."""
    arguments = _parse_arguments(argv)
    set_up_logging(arguments.log_level)
    try:
        config = _read_config(arguments.properties, arguments.override)
    except (ConfigError, OSError) as error:
        print(f"broker: {error}", file=sys.stderr)  # noqa: T201 - nobody may be logging yet
        return EXIT_USAGE
    _raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(config))


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="broker",
        description="One Kafka-compatible broker.",
        epilog="example: python -m broker server.properties --override log.dirs=/var/lib/ottla",
    )
    parser.add_argument("properties", nargs="?", type=Path, help="server.properties of Kafka")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="key=value",
        help="set one key; wins over the file",
    )
    parser.add_argument("--log-level", choices=LEVELS, default=DEFAULT_LEVEL)
    return parser.parse_args(argv)


def _read_config(path: Path | None, overrides: Sequence[str]) -> BrokerConfig:
    """Return the configuration; warn of keys that mean nothing.

    Raises:
        ConfigError: a value that cannot be used.
        OSError: the file cannot be read.
    """
    properties = parse_properties(path.read_text(encoding=ENCODING)) if path else {}
    properties |= parse_overrides(overrides)
    config = BrokerConfig.from_properties(properties)
    for key in unknown_keys(properties):
        log.warning("config.unknown_key", key=key, value=properties[key])
    return config


def _raise_file_limit() -> None:
    """Allow as many open files as this process may have: logs and connections need them."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(config: BrokerConfig) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    node = Node(config, loop)
    try:
        await node.start()
    except StartupError as error:
        log.error("broker.not_started", error=str(error))
        return EXIT_FAILED
    node.failed.add_done_callback(lambda _: stopping.set())
    await stopping.wait()
    # From now on a second signal ends the process at once.
    for number in STOP_SIGNALS:
        loop.remove_signal_handler(number)
    await node.stop()
    if node.failed.done():
        log.error("broker.failed", error=node.failed.result())
        return EXIT_FAILED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
