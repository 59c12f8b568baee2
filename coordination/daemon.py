"""Runs a coordinator in a process of its own until a signal (composition)."""

import asyncio
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from coordination.server.coordinator import Coordinator
from coordination.server.coordinator_config import CoordinatorConfig
from speedups.file_limit import raise_file_limit
from speedups.service_manager import ServiceManager
from speedups.stop_signals import stop_at_signals

GC_THRESHOLDS: Final = (100_000, 20, 1000)
# Limits the wait of the sync thread for the interpreter lock after fdatasync.
SWITCH_INTERVAL_S: Final = 0.0005


async def serve(
    config: CoordinatorConfig,
    directory: Path,
    *,
    on_ready: Callable[[int], None],
    stop: asyncio.Event,
) -> None:
    """Run a coordinator on `directory` until `stop` is set; `on_ready` gets the port.

    Raises:
        DataError: the directory cannot be used; the message says what to do.
        OSError: the address cannot be used.
    """
    gc.disable()
    manager = ServiceManager()
    coordinator = Coordinator(config, directory)
    try:
        await coordinator.start()
    finally:
        # Nodes hold no cycles: a search among a million of them would only stall the loop.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
    on_ready(coordinator.bound_port)
    manager.ready()
    await stop.wait()
    manager.stopping()
    await coordinator.stop(takes_snapshot=True)


async def run_until_signal(
    config: CoordinatorConfig, directory: Path, on_ready: Callable[[int], None]
) -> None:
    """Run until SIGTERM, SIGINT or, unless ignored as under nohup, SIGHUP.

    A second SIGTERM or SIGINT ends the process at once, which loses no acknowledged change.
    """
    raise_file_limit()
    stop = asyncio.Event()
    stop_at_signals(asyncio.get_running_loop(), stop)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    await serve(config, directory, on_ready=on_ready, stop=stop)
