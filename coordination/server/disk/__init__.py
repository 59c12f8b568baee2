"""The coordinator's data directory: log, snapshots, recovery, export.

`journal` commits groups of transactions to the segments of `wal_writer`; `state_recovery` reads
them back after the newest `state_snapshot`.
"""
