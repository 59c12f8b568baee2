"""The log on disk: Kafka's directories and files, byte for byte. Blocking, one writer per log.

Composition of the package, top down: `directory` (all logs of a broker) > `log` (one partition) >
`segment` (one run of the log) > `offset_index`, `time_index`, `log_file` (its three files), with
`recovery` and `loading` for the start and `leader_epochs`, `checkpoint` for what lies beside them.
Nothing here awaits, reads a clock or knows a socket: time comes in as `now_ms`.
"""
