"""Puts a coordinator together and runs it until a signal (composition)."""

import asyncio
import gc
import os
import signal
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from coordination.config import CoordinatorConfig, PasswordKind, TlsConfig
from coordination.data_dir import DataDir, segments_of
from coordination.journal import FileLog
from coordination.recovery import Recovered, recover
from coordination.server import Server
from coordination.service import Service
from coordination.sessions import Passwords, first_session_id
from coordination.snapshotter import Snapshotter
from coordination.wal_writer import WalWriter, finish_segment

EXIT_DISK_FAILED: Final = 1
GC_THRESHOLDS: Final = (100_000, 20, 1000)
# A thread that comes back from fdatasync waits at most this long for the interpreter.
SWITCH_INTERVAL_S: Final = 0.0005
# Restarts leave short segments; so many of them are worth a snapshot at the next start.
SNAPSHOT_AFTER_SEGMENTS: Final = 8

log = structlog.get_logger()


def wall_clock_ms() -> int:
    """Return the time that nodes are stamped with."""
    return time.time_ns() // 1_000_000


def open_state(data_dir: DataDir) -> tuple[Recovered, WalWriter]:
    """Recover, then begin a new segment; the old one is closed for good."""
    began_s = time.perf_counter()
    gc.disable()
    recovered = recover(data_dir.path, data_dir.identity)
    # Nodes hold no cycles: looking for some among a million of them would stall everybody.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    zxid, store_id = recovered.state.zxid, data_dir.identity.store_id
    if recovered.torn_bytes:
        log.warning(
            "wal.torn_tail_cut", file=str(recovered.open_segment), offset=recovered.open_end_offset
        )
    if recovered.open_segment is not None and recovered.open_segment.name != _name(zxid + 1):
        finish_segment(
            recovered.open_segment,
            store_id,
            end_offset=recovered.open_end_offset,
            last_crc=recovered.last_crc,
        )
    writer = WalWriter(data_dir.path, store_id, last_zxid=zxid, last_crc=recovered.last_crc)
    log.info(
        "state.recovered",
        zxid=zxid,
        node_count=recovered.state.tree.node_count,
        session_count=len(recovered.state.timeouts_ms),
        replayed_count=recovered.replayed_count,
        duration_ms=int((time.perf_counter() - began_s) * 1000),
    )
    return recovered, writer


def _name(first_zxid: int) -> str:
    return f"wal-{first_zxid:016x}.log"


def _exit_at_once(error: OSError) -> None:
    # What the disk holds is unknown after a failed sync; whoever answers now may lie.
    log.critical("wal.failed", error=str(error))
    sys.stderr.flush()
    os._exit(EXIT_DISK_FAILED)


def tls_context(config: TlsConfig) -> ssl.SSLContext:
    """Return the server side's TLS settings."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(config.certificate_file, config.key_file)
    if config.ca_file is not None:
        context.load_verify_locations(config.ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


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
    data_dir = DataDir(directory)
    try:
        recovered, writer = open_state(data_dir)
        await _serve(config, data_dir, recovered, writer, on_ready, stop)
    finally:
        data_dir.close()


async def _serve(
    config: CoordinatorConfig,
    data_dir: DataDir,
    recovered: Recovered,
    writer: WalWriter,
    on_ready: Callable[[int], None],
    stop: asyncio.Event,
) -> None:
    loop = asyncio.get_running_loop()
    snapshotter = Snapshotter(data_dir.path)
    wal = FileLog(writer, loop, on_rolled=snapshotter.start, does_sync=config.does_sync)
    if not config.does_sync:
        log.warning("wal.fsync_is_off", effect="acknowledged changes can be lost: for tests only")
    server = Server(
        Service(recovered.state, first_session_id(config.server_id, wall_clock_ms())),
        wal,
        config,
        Passwords(
            data_dir.identity.secret,
            zookeeper_compatible=config.passwords is PasswordKind.ZOOKEEPER,
        ),
        wall_clock_ms=wall_clock_ms,
        on_fatal=_exit_at_once,
        tls=None if config.tls is None else tls_context(config.tls),
    )
    await server.start()
    if len(segments_of(data_dir.path)) > SNAPSHOT_AFTER_SEGMENTS:
        snapshotter.start()
    on_ready(server.bound_port)
    await stop.wait()
    await server.stop()
    await snapshotter.wait()
    snapshotter.start()
    await snapshotter.wait()


async def run_until_signal(
    config: CoordinatorConfig, directory: Path, on_ready: Callable[[int], None]
) -> None:
    """Run until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    await serve(config, directory, on_ready=on_ready, stop=stop)
