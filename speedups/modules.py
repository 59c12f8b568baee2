"""The list of compiled modules, and the state of the sources they were built from (edge).

This file imports nothing from Ottla, because `setup.py` runs it on its own.
"""

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "storage": (
        "log.epoch_checkpoint",
        "log.local_log",
        "log.log",
        "producers.producer_state",
        "segment.batch_scan",
        "segment.index_file",
        "segment.log_file",
        "segment.offset_index",
        "segment.segment",
        "segment.segment_index",
        "segment.segment_lookup",
        "segment.time_index",
    ),
    "broker": (
        "handlers.appending",
        "handlers.consumer_session",
        "handlers.fetch",
        "handlers.follower_fetch",
        "handlers.partition_data",
        "handlers.produce",
        "network.buffer_pool",
        "network.connection_state",
        "network.file_range",
        "network.frame_receiver",
        "network.metrics",
        "network.processor",
        "network.receive_memory",
        "network.reply",
        "network.request",
        "network.request_channel",
        "network.request_timing",
        "network.response",
        "network.response_sender",
        "network.router",
        "purgatory",
        "quotas.throttle",
        "replication.batch_rules",
        "replication.fetch_session",
        "replication.leadership",
        "replication.partition_events",
        "replication.replica",
        "replication.replica_manager",
        "replication.replica_table",
        "replication.topic_traffic",
        "status.group_metrics",
        "status.partition_metrics",
    ),
}
"""By package: the modules on the path of Produce and Fetch requests; each speeds up the others."""
READ: Final = ("broker", "clusterstate", "kafkawire", "monitoring", "storage")
"""The compiler takes constants and types from all of these."""


def module_names(group: str) -> list[str]:
    """Return the full names of a group's modules."""
    return [f"{group}.{name}" for name in GROUPS[group]]


def folder_name(state: str) -> str:
    """Return the folder, in this package, of the binaries that replace sources."""
    return f"binaries_{state}"


def library_name(group: str, state: str) -> str:
    """Return the module that holds a group's code, built from sources in `state`."""
    return f"speedups.{group}_{state}__mypyc"


def sources_state(root: Path) -> str:
    """Return a checksum of all sources below `root`, which changes with any of them."""
    state = 0
    for path in _sources(root):
        state = zlib.crc32(path.read_bytes(), state)
    return f"{state:08x}"


def _sources(root: Path) -> Iterator[Path]:
    for package in READ:
        yield from sorted((root / package).rglob("*.py"))
