"""Sessions and their deadlines (decision). Time is a parameter, in monotonic milliseconds.

A session expires after `timeout_ms` without a packet. Only time in which this process runs counts:
after a restart or a stall of the process, all deadlines are extended, because packets may be
waiting in sockets. `server` shortens the deadline of a session whose connection broke, and ends
expired sessions. Safety does not depend on this, as every write is fenced by a version.
"""

import heapq
import hmac
from collections.abc import Iterator
from typing import Final

from coordination.protocol.messages import PASSWORD_BYTES

ZOOKEEPER_PASSWORD_SALT: Final = 0xB3415C00
MAX_EXPIRED: Final = 500
"""Sessions that expire in one turn of the loop. A client may begin thousands, and leave."""
_MULTIPLIER: Final = 0x5DEECE66D
_MASK48: Final = (1 << 48) - 1
_SERVER_ID_SHIFT: Final = 56
_NUMBER_MASK: Final = (1 << _SERVER_ID_SHIFT) - 1


class Session:
    """One live session; `connection` is its current connection, if any.

    `changed_zxid` is the last transaction about the session itself; 0 if it was recovered.
    `was_authenticated` is false until a client with a sufficient identity uses the session; a
    recovered session counts as used.
    """

    __slots__ = (
        "changed_zxid",
        "connection",
        "deadline_ms",
        "has_linger",
        "queued_ms",
        "session_id",
        "timeout_ms",
        "was_authenticated",
    )

    def __init__(self, session_id: int, timeout_ms: int, now_ms: int) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.deadline_ms = now_ms + timeout_ms
        self.queued_ms = self.deadline_ms
        self.has_linger = False
        self.changed_zxid = 0
        self.was_authenticated = True
        self.connection: object | None = None


class SessionTable:
    """All live sessions, by id and by deadline.

    Invariant: each session has an entry in the heap that is not later than its deadline.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}
        self._heap: list[tuple[int, int]] = []
        self._extended: dict[int, tuple[int, int]] = {}
        """The deadline of each session after the last extension, and the extension in all."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def find(self, session_id: int) -> Session | None:
        """Return the live session with this id; None if there is none."""
        return self._sessions.get(session_id)

    def add(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """Start tracking a session."""
        session = Session(session_id, timeout_ms, now_ms)
        self._sessions[session_id] = session
        heapq.heappush(self._heap, (session.deadline_ms, session_id))
        return session

    def remove(self, session_id: int) -> None:
        """Stop tracking a session; its heap entry is skipped later."""
        self._sessions.pop(session_id, None)

    def touch(self, session: Session, now_ms: int) -> None:
        """Extend the deadline after a packet of this session."""
        session.deadline_ms = now_ms + session.timeout_ms

    def shorten(self, session: Session, deadline_ms: int) -> None:
        """Bring the deadline closer, to `deadline_ms`; the next packet extends it again."""
        if deadline_ms < session.deadline_ms:
            session.deadline_ms = deadline_ms
            self._queue(session)

    def change_timeout(self, session: Session, timeout_ms: int, now_ms: int) -> None:
        """Set the timeout that was negotiated when the session was resumed."""
        session.timeout_ms = timeout_ms
        session.deadline_ms = now_ms + timeout_ms
        self._queue(session)

    def extend_all(self, by_ms: int, now_ms: int) -> None:
        """Extend all deadlines by `by_ms`, for a time in which no packets were read.

        No deadline ends up later than after a packet at `now_ms`, and none becomes earlier. Several
        extensions without a packet in between count as the longest of them: packets that waited at
        one of them have been read before the next. A session of a dead client would otherwise last
        for as long as the server is too busy to be on time.
        """
        extended: dict[int, tuple[int, int]] = {}
        for session in self._sessions.values():
            deadline_ms = session.deadline_ms
            extended_ms, so_far_ms = self._extended.get(session.session_id, (0, 0))
            if extended_ms != deadline_ms:
                so_far_ms = 0
            # The packets of some sessions were read already, after that time.
            latest_ms = max(deadline_ms, now_ms + session.timeout_ms)
            session.deadline_ms = min(deadline_ms + max(0, by_ms - so_far_ms), latest_ms)
            so_far_ms += session.deadline_ms - deadline_ms
            extended[session.session_id] = session.deadline_ms, so_far_ms
        self._extended = extended

    def expired(self, now_ms: int) -> list[Session]:
        """Return at most `MAX_EXPIRED` sessions whose deadline has passed.

        The caller closes them, and calls again in its next turn.
        """
        found: list[Session] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) < MAX_EXPIRED:
            queued_ms, session_id = heapq.heappop(self._heap)
            session = self._sessions.get(session_id)
            if session is None or session.queued_ms != queued_ms:
                continue
            if session.deadline_ms <= now_ms:
                found.append(session)
            # Queued again even if expired, because the caller may fail to close it.
            self._queue(session, max(session.deadline_ms, now_ms + 1))
        return found

    def next_check_ms(self) -> int | None:
        """Return the earliest time at which `expired` may return a session."""
        return self._heap[0][0] if self._heap else None

    def _queue(self, session: Session, at_ms: int | None = None) -> None:
        session.queued_ms = session.deadline_ms if at_ms is None else at_ms
        heapq.heappush(self._heap, (session.queued_ms, session.session_id))


def first_session_id(server_id: int, wall_ms: int, last_session_id: int) -> int:
    """Return the first session id: bits of the server id, then of the time, then zeros.

    After the clock was set back, the number of the last session is continued instead of the time.
    That session may have another server id, because that may change, and change back.
    """
    by_time = ((wall_ms << 24) & (1 << 64) - 1) >> 8
    return (server_id << _SERVER_ID_SHIFT) | max(by_time, session_number(last_session_id) + 1)


def session_number(session_id: int) -> int:
    """Return the part of an id that grows from session to session, without the server id."""
    return session_id & _NUMBER_MASK


class Passwords:
    """Session passwords, which prove that a client owns a session.

    By default a password is a keyed hash. With `zookeeper_compatible`, new passwords follow
    ZooKeeper's formula. Any client can compute these from the session id, but a real ensemble
    accepts them after an export. Passwords of the first kind remain valid.
    """

    def __init__(self, secret: bytes, *, zookeeper_compatible: bool) -> None:
        self._secret = secret
        self._zookeeper_compatible = zookeeper_compatible

    def issue(self, session_id: int) -> bytes:
        """Return the password of a session."""
        if self._zookeeper_compatible:
            return zookeeper_password(session_id)
        return self._keyed(session_id)

    def accept(self, session_id: int, password: bytes | None) -> bool:
        """Whether `password` proves ownership of the session."""
        if password is None:
            return False
        if hmac.compare_digest(password, self._keyed(session_id)):
            return True
        return self._zookeeper_compatible and password == zookeeper_password(session_id)

    def _keyed(self, session_id: int) -> bytes:
        text = str(session_id).encode()
        return hmac.digest(self._secret, text, "sha256")[:PASSWORD_BYTES]


def zookeeper_password(session_id: int) -> bytes:
    """Return `new java.util.Random(id ^ salt).nextBytes(16)`, as ZooKeeper does."""
    seed = (session_id ^ ZOOKEEPER_PASSWORD_SALT ^ _MULTIPLIER) & _MASK48
    out = bytearray()
    while len(out) < PASSWORD_BYTES:
        seed = (seed * _MULTIPLIER + 0xB) & _MASK48
        out += (seed >> 16 & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(out)
