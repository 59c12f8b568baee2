"""The durable state (decision): tree, sessions and the last transaction number.

`apply` is the only way to change it, for live requests and for replay alike, so a recovered
coordinator holds exactly what the log says.
"""

from coordination.tree import Tree
from coordination.txns import CloseTxn, Entry, MultiTxn, SessionTxn


class State:
    """What survives a restart."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.timeouts_ms: dict[int, int] = {}
        self.zxid = 0

    def apply(self, entry: Entry) -> None:
        """Apply the next entry; its number must be the next one."""
        assert entry.zxid == self.zxid + 1, f"entry {entry.zxid} after {self.zxid}"
        txn = entry.txn
        if isinstance(txn, MultiTxn):
            for each in txn.txns:
                self.tree.apply(each, entry.zxid, entry.time_ms)
        elif isinstance(txn, SessionTxn):
            self.timeouts_ms[entry.session_id] = txn.timeout_ms
        elif isinstance(txn, CloseTxn):
            for path in txn.paths:
                self.tree.delete(path, entry.zxid)
            self.timeouts_ms.pop(entry.session_id, None)
        else:
            self.tree.apply(txn, entry.zxid, entry.time_ms)
        self.zxid = entry.zxid
