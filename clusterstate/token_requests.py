"""Reads and changes of the znodes of delegation tokens (decision).

Source: kafka.zk.KafkaZkClient, kafka.server.DelegationTokenManagerZk of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from clusterstate.change_notifications import Changes, take_changes
from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import (
    MAX_ATTEMPTS,
    Create,
    Delete,
    Op,
    Plan,
    Refusal,
    SetData,
    list_children,
    read,
    write,
)
from clusterstate.znodes import paths
from clusterstate.znodes.delegation_token import (
    CHANGE_PREFIX,
    CHANGES,
    TOKENS,
    DelegationToken,
    decode_change,
    decode_token,
    encode_token,
    token_path,
)
from kafkawire.errors import ApiError, ErrorCode

Change = Callable[[DelegationToken | None], DelegationToken | None]
"""Returns the new token, or None to delete it; its argument is None if there is none."""


def create_token_nodes() -> Plan[None]:
    """Create the parents of tokens and notifications; existing ones are kept."""
    wanted = dict.fromkeys((*paths.parents(TOKENS), TOKENS, CHANGES))
    yield from write([(Create(path, None),) for path in wanted])


def read_token_ids() -> Plan[list[str]]:
    """Return the ids of all tokens."""
    names = yield from list_children(TOKENS)
    return sorted(names)


def read_tokens(token_ids: Iterable[str]) -> Plan[Mapping[str, DelegationToken | str | None]]:
    """Return each token, None if there is none, or the reason why its znode holds none."""
    asked = list(token_ids)
    nodes = yield from read([token_path(each) for each in asked])
    found: dict[str, DelegationToken | str | None] = {}
    for token_id, node in zip(asked, nodes, strict=True):
        try:
            token = decode_token(node.data) if node else None
        except MalformedZnodeError as error:
            found[token_id] = str(error)
            continue
        is_other = token is not None and token.token_id != token_id
        found[token_id] = "the znode holds another token" if is_other else token
    return found


def change_token(token_id: str, change: Change) -> Plan[DelegationToken | None]:
    """Apply `change` to a token, announce it, and return the result.

    Raises:
        ApiError: from `change`; INVALID_REQUEST if the token exceeds the size of a znode;
            REQUEST_TIMED_OUT after `MAX_ATTEMPTS` conflicts. Nothing has changed.
        MalformedZnodeError: the znode does not hold a token.
    """
    path = token_path(token_id)
    notify = Create(CHANGE_PREFIX, token_id.encode(), sequential=True)
    has_deleted = False
    for _ in range(MAX_ATTEMPTS):
        [node] = yield from read((path,))
        if node is None and has_deleted:
            # The answer to the deletion was lost, or another broker was faster.
            return None
        current = decode_token(node.data) if node else None
        changed = change(current)
        if changed == current:
            return current
        op: Op
        if node is None:
            assert changed is not None, "it differs from the current one"
            op = Create(path, encode_token(changed))
        elif changed is not None:
            op = SetData(path, encode_token(changed), node.version)
        else:
            op, has_deleted = Delete(path, node.version), True
        [outcome] = yield from write([(op, notify)])
        if outcome.refusal is None:
            return changed
        if outcome.refusal is Refusal.TOO_LARGE:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the token does not fit into a znode")
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "too many changes of the token at the same time")


def take_token_changes(last_number: int, now_ms: int) -> Plan[Changes[str]]:
    """Return the ids of the tokens announced after a notification; delete expired ones."""
    return (yield from take_changes(CHANGE_PREFIX, decode_change, last_number, now_ms))
