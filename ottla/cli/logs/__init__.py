"""Offline checks and dumps of the files of a log directory, of Ottla or of Kafka.

The checks are decisions over bytes (`walk`, `batch_check`, `record_check`, `offset_index_check`,
`time_index_check`, `snapshot_check`, `checkpoint_check`). `file_source` reads the files; `dump` and
`verify` combine the checks.
"""
