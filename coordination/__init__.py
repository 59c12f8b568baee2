"""The coordinator and its client: both sides of ZooKeeper's wire protocol.

The server, from top to bottom: `daemon` > `coordinator` (assembles it on its data directory) >
`server` (sockets, deadlines, the log) > `service` (semantics of requests) > `state`, `tree`,
`sessions` and `watches`. `wal`, `snapshot` and `recovery` own the files on disk. The client that
brokers use is in `coordination.client`.
"""
