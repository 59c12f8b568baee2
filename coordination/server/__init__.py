"""The coordinator, a server of ZooKeeper's protocol.

`coordinator` assembles it on its data directory: `server` accepts connections, meets the deadlines
of sessions and replies once the log is on disk. `state` holds the semantics of the requests
without I/O, `disk` the log, the snapshots and their recovery.
"""
