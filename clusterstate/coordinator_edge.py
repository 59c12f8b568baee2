"""Performs the reads and writes of plans over a session (edge).

A request that is lost with its connection is retried until a response arrives or the session ends.
That is safe: reads change nothing, and plans recognise their own earlier writes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import Final, TypeVar

import structlog

from clusterstate.plans import (
    UNREADABLE,
    UNREADABLE_VERSION,
    Answer,
    Check,
    Children,
    Create,
    Delete,
    Effect,
    ListChildren,
    Node,
    Nodes,
    Op,
    Outcome,
    Outcomes,
    Plan,
    Read,
    Refusal,
    SetData,
    Transaction,
    Write,
)
from coordination.client import Client, SessionState, WatchEvent
from coordination.client import ops as client_ops
from coordination.errors import (
    ConnectionLossError,
    ErrorCode,
    MultiError,
    NoAuthError,
    NoNodeError,
    OperationError,
    RequestTooLargeError,
    ResponseTooLargeError,
    SessionExpiredError,
)
from coordination.protocol import multi
from coordination.protocol.messages import GetDataResponse, Stat

RETRY_BACKOFF_S: Final = 0.02
MAX_RETRY_BACKOFF_S: Final = 1.0
"""Longest back-off of a request that is lost again and again."""
READS_PER_REQUEST: Final = 100
"""Reads per multi-read. A failover reads 1,000 states in 8 ms, instead of 15 ms one by one."""
_OVER: Final = (SessionState.EXPIRED, SessionState.CLOSED)
_REFUSALS: Final = {
    ErrorCode.BAD_VERSION: Refusal.BAD_VERSION,
    ErrorCode.NO_NODE: Refusal.NO_NODE,
    ErrorCode.NODE_EXISTS: Refusal.NODE_EXISTS,
    ErrorCode.NOT_EMPTY: Refusal.NOT_EMPTY,
}
_T = TypeVar("_T")

log = structlog.get_logger(__name__)


class CoordinatorEdge:
    """Performs plans with one client; notifications of watched reads go to `on_watch`."""

    def __init__(self, client: Client, on_watch: Callable[[WatchEvent], None]) -> None:
        self._client = client
        self._watch = on_watch
        self._refused: set[str] = set()
        """Nodes that this broker may not read, as logged."""

    async def run(self, plan: Plan[_T]) -> _T:
        """Perform a plan and return its result.

        Raises:
            SessionExpiredError: the session ended, and an unknown part of the plan was applied.
            ResponseTooLargeError: a response exceeds the limit of the client.
        """
        answer: Answer = None
        while True:
            try:
                effect = plan.send(answer)
            except StopIteration as stop:
                result: _T = stop.value
                return result
            answer = await self.perform(effect)

    async def perform(self, effect: Effect) -> Answer:
        """Perform an effect and return its answer.

        Raises:
            SessionExpiredError: the session ended, and the effect may or may not be applied.
            ResponseTooLargeError: the response for one znode exceeds the limit of the client.
        """
        match effect:
            case Read(paths, watch):
                if watch or len(paths) == 1:
                    reads = [self._read(path, is_watched=watch) for path in paths]
                    return Nodes(tuple(await asyncio.gather(*reads)))
                return Nodes(tuple(await self._read_many(paths)))
            case ListChildren(path, watch):
                return Children(await self._children(path, is_watched=watch))
            case Write(transactions):
                return Outcomes(tuple(await self._write(transactions)))

    async def _read(self, path: str, *, is_watched: bool) -> Node | None:
        watch = self._watch if is_watched else None

        async def attempt() -> Node | None:
            while True:
                try:
                    node = _node(*(await self._client.get_data(path, watch)))
                except NoAuthError:
                    return self._unreadable(path)
                except NoNodeError:
                    # Watch for its creation; it may have been created meanwhile.
                    if watch is None or await self._client.exists(path, watch) is None:
                        return None
                else:
                    self._refused.discard(path)
                    return node

        return await self._until_answered(attempt)

    async def _read_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Read many znodes with few requests, which cannot set watches."""
        groups = [
            paths[start : start + READS_PER_REQUEST]
            for start in range(0, len(paths), READS_PER_REQUEST)
        ]
        found = await asyncio.gather(*[self._read_group(group) for group in groups])
        return [node for group in found for node in group]

    async def _read_group(self, paths: Sequence[str]) -> list[Node | None]:
        found: list[Node | None] = []
        while len(found) < len(paths):
            left = paths[len(found) :]
            found += await self._until_answered(partial(self._read_first, left))
        return found

    async def _read_first(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the first nodes of `paths`, as many as fit in one response."""
        try:
            results = await self._client.multi_read([client_ops.get_data(path) for path in paths])
        except (ConnectionLossError, ResponseTooLargeError):
            if len(paths) == 1:
                raise
            # A large response may be the reason of a loss, too.
            return await self._read_first(paths[: len(paths) // 2])
        read = list(takewhile(lambda result: result.err != ErrorCode.THROTTLED_OP, results))
        if not read:
            raise ConnectionLossError(path=paths[0])
        return [self._found(path, result) for path, result in zip(paths, read, strict=False)]

    def _found(self, path: str, result: multi.Result) -> Node | None:
        if result.err == ErrorCode.NO_NODE:
            return None
        if result.err == ErrorCode.NO_AUTH:
            return self._unreadable(path)
        if not isinstance(result.response, GetDataResponse):
            raise OperationError.of(result.err, path)
        self._refused.discard(path)
        return _node(result.response.data, result.response.stat)

    def _unreadable(self, path: str) -> Node:
        if path not in self._refused:
            self._refused.add(path)
            text = "the broker has no permission to read it"
            log.error("znode.not_readable", path=path, error=text)
        return Node(UNREADABLE, UNREADABLE_VERSION, 0)

    async def _children(self, path: str, *, is_watched: bool) -> tuple[str, ...] | None:
        watch = self._watch if is_watched else None

        async def attempt() -> tuple[str, ...] | None:
            try:
                return tuple(await self._client.get_children(path, watch))
            except NoNodeError:
                return ()
            except NoAuthError:
                return None

        return await self._until_answered(attempt)

    async def _write(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Apply transactions, all in flight at once; retry the lost ones in their order."""
        outcomes: dict[int, Outcome] = {}

        async def attempt() -> None:
            left = [number for number in range(len(transactions)) if number not in outcomes]
            futures = [
                self._client.multi([self._op(op) for op in transactions[number]]) for number in left
            ]
            results = await asyncio.gather(*futures, return_exceptions=True)
            lost: BaseException | None = None
            for number, result in zip(left, results, strict=True):
                if isinstance(result, MultiError):
                    outcomes[number] = _refused(result)
                elif isinstance(result, RequestTooLargeError):
                    last = len(transactions[number]) - 1
                    outcomes[number] = Outcome((), Refusal.TOO_LARGE, last)
                elif isinstance(result, BaseException):
                    lost = result
                else:
                    outcomes[number] = Outcome(tuple(_version(one) for one in result))
            if lost is not None:
                raise lost

        await self._until_answered(attempt)
        return [outcomes[number] for number in range(len(transactions))]

    def _op(self, op: Op) -> multi.Op:
        match op:
            case Create(path, data, ephemeral, sequential):
                acl = self._client.default_acl(path)
                return client_ops.create(
                    path, data, acl=acl, ephemeral=ephemeral, sequential=sequential
                )
            case SetData(path, data, version):
                return client_ops.set_data(path, data, version)
            case Delete(path, version):
                return client_ops.delete(path, version)
            case Check(path, version):
                return client_ops.check(path, version)

    async def _until_answered(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        delay_s = RETRY_BACKOFF_S
        while True:
            try:
                return await attempt()
            except ConnectionLossError as loss:
                if self._client.state in _OVER:
                    raise SessionExpiredError(ErrorCode.SESSION_EXPIRED) from None
                if not loss.maybe_applied:
                    # It was not sent, and can be once there is a connection.
                    await asyncio.sleep(RETRY_BACKOFF_S)
                    continue
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, MAX_RETRY_BACKOFF_S)


def _node(data: bytes | None, stat: Stat) -> Node:
    return Node(data, stat.version, stat.czxid, stat.ephemeral_owner, stat.ctime)


def _version(result: multi.Result) -> int:
    """Return the znode's version after a write; 0 unless the operation is SetData."""
    stat = getattr(result.response, "stat", None)
    return stat.version if isinstance(stat, Stat) else 0


def _refused(error: MultiError) -> Outcome:
    refusal = _REFUSALS.get(error.code, Refusal.OTHER)
    return Outcome((), refusal, error.index)
