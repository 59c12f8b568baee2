"""The durable state (decision): tree, sessions and the last zxid.

`apply` replays a log entry. Live requests change the tree with the same code, so a recovered
coordinator has exactly the state in the log.
"""

from coordination.server.state.tree import Tree
from coordination.server.state.txns import CloseTxn, Entry, MultiTxn, SessionTxn


class State:
    """State that survives a restart."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.timeouts_ms: dict[int, int] = {}
        self.zxid = 0

    def apply(self, entry: Entry) -> None:
        """Apply the next entry; its zxid must be the next one."""
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
