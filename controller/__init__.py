"""Who leads what: the part of each broker of which one is elected controller.

Top down: `controller` (one event after the other) > `plan` (what an event demands) >
`partition_state`, `replica_state`, `elections`, `reassignment` (the rules) > `cluster` (what is
known). Effects leave through `coordinator_edge` (nodes) and `channel` (requests to brokers).
"""
