"""A broker as a process: files, signals and exit code (composition)."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog
import uvloop

from broker.config.broker_config import BrokerConfig, unknown_keys
from broker.config.exposure import doubtful, exposures
from broker.config.properties import ENCODING, parse_overrides, parse_properties
from broker.config.unserved_keys import check_served_keys
from broker.errors import StartupError
from broker.log_levels import LogLevels
from broker.node import Node
from coordination.errors import OUT_OF_THREADS, is_out_of_threads
from speedups.file_limit import raise_file_limit
from speedups.service_manager import ServiceManager
from speedups.stop_signals import stop_at_signals

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
GC_THRESHOLDS: Final = (10_000, 10, 10)
"""High, as requests leave no cycles and one for a thousand partitions makes 50,000 objects."""
KAFKA_OPTIONS: Final = "KAFKA_OPTS"
"""Variable with options for the JVM of a Kafka broker."""
LOGIN_FILE: Final = "java.security.auth.login.config"
INSTEAD_OF_LOGIN_FILE: Final = (
    f"set {LOGIN_FILE} in server.properties for its section Client, and "
    "listener.name.LISTENER.MECHANISM.sasl.jaas.config for its section KafkaServer"
)

log = structlog.get_logger(__name__)


def read_config(path: Path | None, overrides: Sequence[str]) -> BrokerConfig:
    """Return the configuration from the file at `path` and `overrides`; warn of mistakes.

    Raises:
        ConfigError: a value cannot be used.
        OSError: the file cannot be read.
    """
    properties = parse_properties(path.read_text(encoding=ENCODING)) if path else {}
    properties |= parse_overrides(overrides)
    check_served_keys(properties)
    config = BrokerConfig.from_properties(properties)
    for key in unknown_keys(properties):
        # Never log the value: that of an unknown key may be a secret.
        log.warning("config.unknown_key", key=key)
    if LOGIN_FILE in os.environ.get(KAFKA_OPTIONS, ""):
        log.warning("login_file.not_read", variable=KAFKA_OPTIONS, instead=INSTEAD_OF_LOGIN_FILE)
    for each in exposures(config.network.listening, config.listener_security):
        log.warning("listener.exposed", listener=str(each.listener), risk=each.risk)
    for principal, reason in doubtful(sorted(config.server.super_principals, key=str)):
        log.warning("super_user.doubtful", principal=str(principal), reason=reason)
    return config


def run(config: BrokerConfig, levels: LogLevels) -> int:
    """Run a broker until a signal stops it; return the exit code of the process.

    `levels` belongs to the loggers; clients may change it.
    """
    raise_file_limit()
    code: int | None = None
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(_serve(config, levels))
    except RuntimeError as error:
        if not is_out_of_threads(error):
            raise
        # The end of the event loop needs a thread, too: then the exit code is known already.
        if code is None:
            log.error("broker.failed", error=OUT_OF_THREADS)
            code = EXIT_FAILED
    return code


async def _serve(config: BrokerConfig, levels: LogLevels) -> int:
    loop = asyncio.get_running_loop()
    manager = ServiceManager()
    stopping = asyncio.Event()
    stop_at_signals(loop, stopping)
    node = Node(config, loop, levels)
    node.failed.add_done_callback(lambda _: stopping.set())
    try:
        if not await _start_unless(stopping, node):
            log.info("broker.stopped")
            return _exit_code(node)
    except StartupError as error:
        log.error("broker.not_started", error=str(error))
        return EXIT_FAILED
    finally:
        # Objects created by now stay alive: exclude them from later collections.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
    manager.ready()
    await stopping.wait()
    manager.stopping()
    await node.stop()
    return _exit_code(node)


def _exit_code(node: Node) -> int:
    """Return the exit code after `node` has stopped, and log the reason of a failure."""
    if node.failed.done():
        log.error("broker.failed", error=node.failed.result())
        return EXIT_FAILED
    return EXIT_OK


async def _start_unless(stopping: asyncio.Event, node: Node) -> bool:
    """Start `node`; return False if it was not started, because `stopping` was set meanwhile.

    A start may wait for other processes for any time: for the coordinator, or for a controller.

    Raises:
        StartupError: the start failed.
    """
    starting = asyncio.ensure_future(node.start())
    stop = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not starting.done():
        starting.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        return False
    return True
