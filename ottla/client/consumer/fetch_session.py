"""The fetch session of one connection (decision), KIP-227.

Within a session, a request names only the partitions that have changed since the last one, and the
ones that are no longer wanted; a response leaves out partitions without news.
Invariants: after an error or a lost response, the next request begins a new session with all
partitions, and so does a request that would name too many. All requests of a session name topics in
the same way, by id or by name.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, TopicId
from kafkawire.messages.fetch import FetchPartition, FetchResponse

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
SESSIONLESS_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
MAX_PARTITIONS_PER_FETCH: Final = 10_000
"""A broker accepts 20,000 elements, and each partition may need one for its topic, too."""
SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The broker has ended the session: the next request begins another one."""


class FetchKey(NamedTuple):
    """A partition as requests and responses name it: by the id of its topic, or by its name.

    The other of the two is zero or empty.
    """

    topic_id: TopicId
    topic: str
    partition: int


Wanted = Mapping[FetchKey, FetchPartition]


class SessionPart(NamedTuple):
    """The part of a Fetch request that depends on the session."""

    session_id: int
    session_epoch: int
    changed: Wanted
    forgotten: list[FetchKey]


def uses_topic_ids(wanted: Wanted) -> bool:
    """Whether `wanted` names topics by their ids. All partitions of a request do, or none."""
    return any(each.topic_id != ZERO_TOPIC_ID for each in wanted)


def sessionless(wanted: Wanted) -> SessionPart:
    """Return the part of a request without a session."""
    return SessionPart(NO_SESSION, SESSIONLESS_EPOCH, wanted, [])


class FetchSession:
    """The partitions that the broker at the other end of one connection remembers."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._sent: Wanted = {}

    def request(self, wanted: Wanted) -> SessionPart:
        """Return the part of the next request, which fetches exactly `wanted`."""
        sent, self._sent = self._sent, wanted
        if uses_topic_ids(sent) != uses_topic_ids(wanted):
            self._epoch = INITIAL_EPOCH
        if self._epoch == INITIAL_EPOCH:
            return SessionPart(self._session_id, INITIAL_EPOCH, wanted, [])
        changed = {each: part for each, part in wanted.items() if sent.get(each) != part}
        forgotten = [each for each in sent if each not in wanted]
        if len(changed) + len(forgotten) > MAX_PARTITIONS_PER_FETCH:
            # Too much for one request, unlike another session.
            self._epoch = INITIAL_EPOCH
            return SessionPart(self._session_id, INITIAL_EPOCH, wanted, [])
        return SessionPart(self._session_id, self._epoch, changed, forgotten)

    def on_response(self, response: FetchResponse) -> None:
        """Note the broker's decision about the session."""
        if response.error_code != ErrorCode.NONE or response.session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def on_lost(self) -> None:
        """Begin another session with the next request, which also ends this one."""
        self._epoch = INITIAL_EPOCH
