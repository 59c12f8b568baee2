"""Assembles a coordinator on its data directory (composition), for a daemon or inside a broker.

The start locks the directory, recovers the state, creates a new segment, and listens. The stop does
the reverse.
"""

import asyncio
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import structlog

from coordination.server.coordinator_config import CoordinatorConfig, PasswordKind
from coordination.server.disk.data_dir import DataDir, segments_of
from coordination.server.disk.journal import FileLog
from coordination.server.disk.snapshotter import Snapshotter
from coordination.server.disk.state_recovery import Recovered, recover
from coordination.server.disk.wal_writer import WalWriter, finish_segment
from coordination.server.metrics_page import coordinator_pieces
from coordination.server.server import Server
from coordination.server.state.service import Service
from coordination.server.state.sessions import Passwords, first_session_id
from coordination.server.tls import ServerTls
from monitoring.process_metrics import process_pieces
from monitoring.status_server import StatusServer, health_page

EXIT_DISK_FAILED: Final = 1
NONCE_BYTES: Final = 24
# Every restart leaves a short segment. With more than this, a start takes a snapshot.
SNAPSHOT_AFTER_SEGMENTS: Final = 8

log = structlog.get_logger(__name__)


class Coordinator:
    """Coordinator in the running loop; call `start` once, then `stop` once."""

    def __init__(self, config: CoordinatorConfig, directory: Path) -> None:
        self._config = config
        self._directory = directory
        self._data_dir: DataDir | None = None
        self._server: Server | None = None
        self._snapshotter = Snapshotter(directory)
        self._status: StatusServer | None = None

    @property
    def bound_port(self) -> int:
        """Port of the plain listener, available after `start`."""
        assert self._server is not None, "start first"
        return self._server.bound_port

    async def start(self) -> None:
        """Recover and listen; the coordinator serves when this returns.

        Raises:
            DataError: the directory cannot be used; the message says what to do.
            OSError: the address cannot be used.
        """
        self._data_dir = DataDir(self._directory)
        try:
            self._server = self._make_server(self._data_dir)
            await self._server.start()
            await self._show_status()
        except BaseException:
            self._data_dir.close()
            raise
        if len(segments_of(self._directory)) > SNAPSHOT_AFTER_SEGMENTS:
            self._snapshotter.start()

    async def stop(self, *, takes_snapshot: bool) -> None:
        """Stop in order; a snapshot makes the next start faster, and this stop slower."""
        if self._server is None or self._data_dir is None:
            return
        if self._status is not None:
            await self._status.stop()
        await self._server.stop()
        await self._snapshotter.finish(takes_snapshot=takes_snapshot)
        self._data_dir.close()

    def metrics(self) -> Iterator[str]:
        """Yield the text of the metrics, for Prometheus."""
        assert self._server is not None, "start first"
        yield from coordinator_pieces(self._server)

    async def _show_status(self) -> None:
        address = self._config.metrics_listen
        if address is None:
            return

        async def page() -> AsyncIterator[str]:
            for piece in chain(self.metrics(), process_pieces()):
                yield piece

        # The coordinator listens only once it serves, and a failed disk ends its process.
        pages = {"/metrics": page, "/healthz": health_page(tuple), "/readyz": health_page(tuple)}
        self._status = StatusServer(address.host, address.port, pages)
        await self._status.start()

    def _make_server(self, data_dir: DataDir) -> Server:
        config = self._config
        recovered, writer = open_state(data_dir)
        state = recovered.state
        loop = asyncio.get_running_loop()
        wal = FileLog(
            writer,
            loop,
            on_rolled=self._snapshotter.start,
            does_sync=config.does_sync,
        )
        if not config.does_sync:
            log.warning(
                "wal.fsync_is_off", effect="acknowledged changes can be lost: for tests only"
            )
        return Server(
            Service(
                state, first_session_id(config.server_id, wall_clock_ms(), state.last_session_id)
            ),
            wal,
            config,
            Passwords(
                data_dir.identity.secret,
                zookeeper_compatible=config.passwords is PasswordKind.ZOOKEEPER,
            ),
            wall_clock_ms=wall_clock_ms,
            on_fatal=_exit_at_once,
            new_nonce=lambda: secrets.token_urlsafe(NONCE_BYTES),
            tls=None if config.tls is None else ServerTls(config.tls, loop.time),
        )


def wall_clock_ms() -> int:
    """Return the time for the timestamps of nodes."""
    return time.time_ns() // 1_000_000


def open_state(data_dir: DataDir) -> tuple[Recovered, WalWriter]:
    """Recover the state and create a new segment; the old one is finished."""
    began_s = time.perf_counter()
    recovered = recover(data_dir.path, data_dir.identity)
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
            last_crc=recovered.open_crc,
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


def _exit_at_once(error: BaseException) -> None:
    # After a failed sync the contents of the disk are unknown: any further reply could be wrong.
    log.critical("wal.failed", error=str(error) or repr(error))
    sys.stderr.flush()
    os._exit(EXIT_DISK_FAILED)
