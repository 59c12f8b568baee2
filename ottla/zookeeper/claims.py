"""Claims and releases partitions (edge).

A claim is one transaction: it creates the owners, and writes the offsets with their own text, which
fences the commits of former owners. All or nothing, so two members never wait for half of each
other's partitions.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Final

from clusterstate.znodes import consumer_nodes
from coordination.client import ops
from coordination.errors import ErrorCode, MultiError, NoNodeError
from coordination.protocol.multi import Op
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.nodes import GroupNodes, gathered
from ottla.zookeeper.offset_nodes import OffsetNodes, StoredOffset
from ottla.zookeeper.rebalance_events import Claimed, Moved, Refused
from ottla.zookeeper.registration import consumer_of

log = logging.getLogger(__name__)

CLAIM_SLOTS: Final = 500
CLAIM_TRIES: Final = 1000
"""Number of attempts at one transaction, each of which learned of one more claim of our own."""


class Claims:
    """The claims of one member."""

    def __init__(self, nodes: GroupNodes, offsets: OffsetNodes, consumer: str) -> None:
        self._nodes = nodes
        self._offsets = offsets
        self._client = nodes.client
        self._consumer = consumer

    async def claim(self, session: int, wanted: Mapping[Slot, str]) -> Claimed | Refused | Moved:
        """Own all of `wanted`, or none of them.

        Raises:
            OperationError: the outcome is unknown, or the coordinator refuses.
        """
        slots = sorted(wanted)
        for start in range(0, len(slots), CLAIM_SLOTS):
            chunk = {slot: wanted[slot] for slot in slots[start : start + CLAIM_SLOTS]}
            outcome = await self._claim_chunk(session, chunk)
            if outcome is not None:
                await self.release(slots[:start])
                return outcome
        return Claimed(session)

    async def release(self, slots: Collection[Slot]) -> None:
        """Delete the claims among `slots` that the client's session has created.

        Raises:
            OperationError: the outcome is unknown.
        """
        self._offsets.forget(slots)
        places = [self._owner(slot) for slot in sorted(slots)]
        found = await gathered(self._client.get_data(place) for place in places)
        mine = [
            place
            for place, held in zip(places, found, strict=True)
            if not isinstance(held, BaseException)
            and held[1].ephemeral_owner == self._client.session_id
        ]
        await gathered(self._client.delete(place) for place in mine)

    async def _claim_chunk(self, session: int, chunk: Mapping[Slot, str]) -> Refused | Moved | None:
        ours: set[Slot] = set()
        for _ in range(CLAIM_TRIES):
            stored = await self._offsets.read(list(chunk))
            free = [slot for slot in chunk if slot not in ours]
            fences = [_fence(self._path(slot), held) for slot, held in stored.items() if held]
            try:
                await self._client.multi(
                    [
                        *(
                            ops.create(self._owner(s), chunk[s].encode(), ephemeral=True)
                            for s in free
                        ),
                        *fences,
                    ]
                )
            except MultiError as error:
                if error.index >= len(free):
                    return Moved(session)
                slot = free[error.index]
                if error.code is ErrorCode.NO_NODE:
                    await self._nodes.create_parents(self._owner(slot))
                    continue
                if error.code is not ErrorCode.NODE_EXISTS:
                    raise
                refused = await self._refused(session, slot, chunk[slot], ours)
                if refused is not None:
                    return refused
            else:
                for slot, held in stored.items():
                    is_there = held is not None and not held.is_former
                    self._offsets.versions[slot] = held.version + 1 if held and is_there else None
                return None
        return Moved(session)

    async def _refused(
        self, session: int, slot: Slot, wanted: str, ours: set[Slot]
    ) -> Refused | Moved | None:
        """Return the reason why `slot` cannot be claimed; None to try again.

        A claim that this session has already is added to `ours`.
        """
        try:
            data, stat = await self._client.get_data(self._owner(slot))
        except NoNodeError:
            return Moved(session)
        thread = (data or b"").decode(errors="replace")
        if stat.ephemeral_owner == self._client.session_id:
            if thread == wanted:
                ours.add(slot)
            else:
                # For another stream. Deleted instead of set, because commits check the version 0.
                await gathered([self._client.delete(self._owner(slot))])
            return None
        owner = consumer_of(thread)
        # A claim of our own id in another session ends with that session.
        is_live = owner not in ("", self._consumer) and await self._nodes.is_member(owner)
        log.info(
            "group.conflict group=%s partition=%s-%s owner=%r live=%s",
            self._nodes.group,
            *slot,
            thread,
            is_live,
        )
        return Refused(session, slot, thread, is_live)

    def _path(self, slot: Slot) -> str:
        return consumer_nodes.offset(self._nodes.group, *slot)

    def _owner(self, slot: Slot) -> str:
        return consumer_nodes.owner(self._nodes.group, *slot)


def _fence(path: str, held: StoredOffset) -> Op:
    if held.is_former:
        # The offset of a deleted topic of the same name would skip records of this one.
        return ops.delete(path, held.version)
    return ops.set_data(path, held.data, held.version)
