"""Reads and writes the offsets of a group in its nodes (edge).

A write is a transaction: the partition has an owner, and the offset has the version that this
member has seen. A new owner writes every offset while it claims, so the commit of a former owner
finds another version. The check of the owner alone would prove nothing, since a claim is never
changed and its version is always 0.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from clusterstate.znodes import consumer_nodes
from coordination.client import ops
from coordination.errors import ErrorCode, MultiError, NoNodeError
from coordination.protocol.multi import Op
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.nodes import GroupNodes, gathered

log = logging.getLogger(__name__)

COMMIT_SLOTS: Final = 500
"""Number of offsets in one transaction: requests hold 1 MiB."""
COMMIT_TRIES: Final = 10
MAX_UNANSWERED: Final = 16
"""Offsets of a partition that are remembered while no commit has an answer."""


class StoredOffset(NamedTuple):
    """An offset's node; `value` is None if it holds no offset, or one of a former topic."""

    value: int | None
    version: int
    data: bytes | None
    is_former: bool = False


class OffsetNodes:
    """The offsets of one group, as seen by one member in one session."""

    def __init__(self, nodes: GroupNodes) -> None:
        self._nodes = nodes
        self._client = nodes.client
        self.versions: dict[Slot, int | None] = {}
        """Version of each node that this member may write; None for a node that does not exist."""
        self._unanswered: dict[Slot, list[int]] = {}
        """Offsets of the last commits without an answer: each may be written."""
        self.created: Mapping[str, int] = {}
        """Zxid of the creation of each topic; an older offset belongs to a former topic."""

    def forget(self, slots: Collection[Slot]) -> None:
        """Forget the versions of partitions that this member no longer owns."""
        for slot in slots:
            self.versions.pop(slot, None)
            self._unanswered.pop(slot, None)

    async def read(self, slots: Sequence[Slot]) -> dict[Slot, StoredOffset | None]:
        """Return the node of each partition; None where there is none."""
        found = await gathered(self._client.get_data(self._path(slot)) for slot in slots)
        stored: dict[Slot, StoredOffset | None] = {}
        for slot, held in zip(slots, found, strict=True):
            if isinstance(held, BaseException):
                stored[slot] = None
                continue
            data, stat = held
            value = consumer_nodes.decode_offset(data)
            is_former = stat.mzxid < self.created.get(slot.topic, 0)
            if value is None or is_former:
                log.warning(
                    "offset.ignored group=%s partition=%s-%s data=%r reason=%s",
                    self._nodes.group,
                    *slot,
                    (data or b"")[:32],
                    "former topic" if is_former else "not an offset",
                )
            stored[slot] = StoredOffset(None if is_former else value, stat.version, data, is_former)
        return stored

    async def unowned(self, slots: Sequence[Slot]) -> set[Slot]:
        """Return the partitions among `slots` that this member's session does not own.

        Raises:
            OperationError: the coordinator cannot be reached, or the session is in doubt.
        """
        claims = await gathered(self._client.get_data(self._owner(slot)) for slot in slots)
        return {
            slot
            for slot, claim in zip(slots, claims, strict=True)
            if isinstance(claim, NoNodeError) or claim[1].ephemeral_owner != self._client.session_id
        }

    async def commit(self, offsets: Mapping[Slot, int]) -> set[Slot]:
        """Write these offsets; return the partitions that this member does not own.

        An offset that another writer has moved beyond ours stays: its records were read.

        Raises:
            OperationError: the coordinator refuses, or the connection is lost.
        """
        lost: set[Slot] = set()
        pending = dict(sorted(offsets.items()))
        for start in range(0, len(pending), COMMIT_SLOTS):
            chunk = dict(list(pending.items())[start : start + COMMIT_SLOTS])
            await self._commit_chunk(chunk, lost)
        return lost

    async def _commit_chunk(self, chunk: dict[Slot, int], lost: set[Slot]) -> None:
        is_known = chunk.keys() <= self.versions.keys()
        refusal: MultiError | None = None
        for _ in range(COMMIT_TRIES):
            if not is_known:
                await self._look_again(chunk, lost)
            if not chunk:
                return
            slots = list(chunk)
            versions = {slot: self.versions[slot] for slot in slots}
            checks = [ops.check(self._owner(slot), 0) for slot in slots]
            writes = [self._write(slot, chunk[slot]) for slot in slots]
            for slot, value in chunk.items():
                earlier = self._unanswered.get(slot, [])
                self._unanswered[slot] = [*earlier[1 - MAX_UNANSWERED :], value]
            try:
                await self._client.multi([*checks, *writes])
            except MultiError as error:
                for slot in self._unanswered.keys() & slots:
                    self._unanswered[slot].pop()
                await self._on_refused(error, versions, chunk, lost)
                # An error names the first refused operation only: others may be refused, too.
                is_known, refusal = False, error
            else:
                # Partitions that were taken away meanwhile have no version any more.
                for slot in self.versions.keys() & slots:
                    self._unanswered.pop(slot, None)
                    version = self.versions[slot]
                    self.versions[slot] = 0 if version is None else version + 1
                return
        assert refusal is not None, "every attempt was refused"
        log.warning("offset.contested group=%s partitions=%d", self._nodes.group, len(chunk))
        raise refusal

    async def _on_refused(
        self,
        error: MultiError,
        versions: Mapping[Slot, int | None],
        chunk: dict[Slot, int],
        lost: set[Slot],
    ) -> None:
        slot = list(versions)[error.index % len(versions)]
        if error.index < len(versions):
            # There is no owner at all.
            del chunk[slot]
            lost.add(slot)
        elif error.code is ErrorCode.NO_NODE and versions[slot] is None:
            created = {slot.topic: slot for slot, version in versions.items() if version is None}
            await gathered(
                self._nodes.create_parents(self._path(slot)) for slot in created.values()
            )
        elif error.code not in (ErrorCode.NO_NODE, ErrorCode.NODE_EXISTS, ErrorCode.BAD_VERSION):
            raise error

    async def _look_again(self, chunk: dict[Slot, int], lost: set[Slot]) -> None:
        """Read the offsets, which another writer may have changed, and whether we own them."""
        slots = list(chunk)
        # The offset first: a claim after this read changes the version.
        stored = await self.read(slots)
        unowned = await self.unowned(slots)
        for slot in slots:
            held = stored[slot]
            if slot in unowned:
                del chunk[slot]
                lost.add(slot)
                continue
            version = None if held is None else held.version
            is_changed = slot not in self.versions or self.versions[slot] != version
            self.versions[slot] = version
            # An offset of our own may be replaced by a smaller one, as after a seek.
            is_ours = held is None or held.value in self._unanswered.get(slot, ())
            if is_changed and not is_ours and held is not None and (held.value or 0) > chunk[slot]:
                # The offset is not ours: with its version, the next commit would replace it.
                del self.versions[slot]
                log.warning(
                    "offset.moved_by_another group=%s partition=%s-%s ours=%d theirs=%d",
                    self._nodes.group,
                    *slot,
                    chunk.pop(slot),
                    held.value,
                )

    def _write(self, slot: Slot, value: int) -> Op:
        version, data = self.versions[slot], consumer_nodes.encode_offset(value)
        if version is None:
            return ops.create(self._path(slot), data)
        return ops.set_data(self._path(slot), data, version)

    def _path(self, slot: Slot) -> str:
        return consumer_nodes.offset(self._nodes.group, *slot)

    def _owner(self, slot: Slot) -> str:
        return consumer_nodes.owner(self._nodes.group, *slot)
