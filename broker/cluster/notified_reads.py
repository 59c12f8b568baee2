"""Order and completeness of reads that notifications in the coordinator cause (edge)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from broker.cluster.coordinator_session import CoordinatorSession

NO_SESSION: Final = 0


class NotifiedReads:
    """The reads of one kind of nodes.

    One runs at a time, so an older read never replaces a newer one. After a lost session or a
    failed read the next one must read everything, because notifications expire.
    """

    def __init__(self, session: CoordinatorSession) -> None:
        self.lock = asyncio.Lock()
        """Held during a read; a change of the nodes by this broker needs it, too."""
        self._session = session
        # The session since which all changes are known.
        self._complete_in = NO_SESSION

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[bool]:
        """Hold the lock during the read in the body; yield whether it must read everything."""
        async with self.lock:
            session_id = self._session.client.session_id
            try:
                yield session_id != self._complete_in
            except Exception:
                self._complete_in = NO_SESSION
                raise
            self._complete_in = session_id
