"""The asyncio client: `Client` sends the requests of one `client_session`.

`ops` names the operations of a multi, `patterns` handle writes whose response was lost.
"""

from coordination.client.client import Client
from coordination.client.login import Login
from coordination.client.session_expiry import SessionState
from coordination.client.watch_registry import WatchEvent

__all__ = ["Client", "Login", "SessionState", "WatchEvent"]
