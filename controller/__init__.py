"""The controller component of a broker: one broker is elected controller and assigns leaders.

From top to bottom: `controller` (runs one event at a time) > `plan` (the reaction to each event) >
`partition_state`, `replica_state`, `leader_elections`, `reassignment` (the rules) > `cluster` (the
image of the cluster). Effects leave through `coordinator_edge` (znodes) and `channel` (requests).
"""
