"""The coordinator and its client: both sides of ZooKeeper's wire protocol.

`server` is the coordinator, `client` is used by brokers, and `protocol` is shared by both. `daemon`
runs a coordinator in a process of its own; `errors` lists the exceptions of all rooms.
"""
