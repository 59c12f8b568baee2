"""Offline work on the files of a log directory, ours or any Kafka's.

The checks are decisions over bytes (`walk`, `batch_check`, `record_check`, `offset_index_check`,
`time_index_check`, `snapshot_check`, `checkpoint_check`); `file_source` reads, `dump` and `verify`
put them together.
"""
