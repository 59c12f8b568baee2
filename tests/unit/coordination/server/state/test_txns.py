"""Transactions round trip through their form on disk; an unknown type is refused."""

import pytest

from coordination.errors import JuteError
from coordination.protocol.messages import OPEN_ACL, Acl
from coordination.server.disk.wal import pack, unpack
from coordination.server.state.txns import (
    CloseTxn,
    CreateTxn,
    DeleteTxn,
    Entry,
    MultiTxn,
    OwnerKind,
    SessionTxn,
    SetAclTxn,
    SetDataTxn,
    Txn,
    kind_of_owner,
    pack_entry,
    ttl_of_owner,
    ttl_owner,
    unpack_entry,
)

LOCKED = (Acl(31, "digest", "bob:x"), Acl(1, "world", "anyone"))
EVERY_KIND: list[Txn] = [
    CreateTxn("/a", b"1", OPEN_ACL, 0, 1),
    CreateTxn("/b", None, LOCKED, ttl_owner(5), -1),
    SetDataTxn("/a", None, 7),
    DeleteTxn("/ä"),
    SetAclTxn("/a", LOCKED, 3),
    SetAclTxn("/a", OPEN_ACL, 4),
    MultiTxn((DeleteTxn("/a"), SetAclTxn("/b", LOCKED, 1))),
    MultiTxn(()),
    SessionTxn(4000),
    CloseTxn(("/e", "/f")),
    CloseTxn(()),
]


@pytest.mark.parametrize("txn", EVERY_KIND, ids=repr)
def test_a_transaction_round_trips(txn: Txn) -> None:
    entry = Entry(1 << 40, 2, -3, 4, txn)
    assert unpack_entry(unpack(pack(pack_entry(entry)))) == entry


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(JuteError, match="type 99 is unknown"):
        unpack_entry((1, 2, 3, 4, 99, "/a"))


@pytest.mark.parametrize(
    ("owner", "kind"),
    [
        (0, OwnerKind.NONE),
        (0x0100_0000_0000_0001, OwnerKind.SESSION),
        (-(1 << 63), OwnerKind.CONTAINER),
        (ttl_owner(1), OwnerKind.TTL),
        (ttl_owner((1 << 40) - 1), OwnerKind.TTL),
    ],
)
def test_an_owner_field_has_a_kind(owner: int, kind: OwnerKind) -> None:
    assert kind_of_owner(owner) is kind


def test_a_ttl_is_kept_in_the_owner_field() -> None:
    assert ttl_of_owner(ttl_owner(123_456)) == 123_456
