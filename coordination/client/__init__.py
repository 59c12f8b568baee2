"""The asyncio client: `Client` is a session, `patterns` handle writes whose response was lost."""

from coordination.client.client import Client
from coordination.client.session_clock import SessionState
from coordination.client.watch_registry import WatchEvent

__all__ = ["Client", "SessionState", "WatchEvent"]
