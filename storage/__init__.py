"""The log on disk: Kafka's directories and files, byte for byte. Blocking, one writer per log.

Composition of the package, top down: `directory` (all logs of a broker) > `log` (one partition) >
`segment` (one run of the log) > `offset_index`, `time_index`, `log_file` (its three files), with
`recovery` and `loading` for startup, and `leader_epochs` and `checkpoint` for the files beside the
segments. The package never awaits, reads a clock or opens a socket: time is a parameter, `now_ms`.
"""
