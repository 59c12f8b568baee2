"""The coordinator, and the client that brokers reach it with: ZooKeeper's wire protocol, both ways.

The server, top down: `daemon` > `coordinator` (puts it together on its data directory) > `server`
(sockets, deadlines, the log) > `service` (what a request means) > `state`, `tree`, `sessions` and
`watches`; `wal`, `snapshot` and `recovery` for what is on disk. The client: `coordination.client`.
"""
