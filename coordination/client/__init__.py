"""The asyncio client: `Client` for a session, `patterns` for writes whose answer was lost."""

from coordination.client.client import Client
from coordination.client.session import SessionState
from coordination.client.watch_registry import WatchEvent

__all__ = ["Client", "SessionState", "WatchEvent"]
