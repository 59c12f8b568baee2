"""The log on disk: Kafka's directories and files, byte for byte. Blocking, one writer per log.

Composition of rooms; each imports only from the rooms below it:

compaction   retention of the last record per key, in a child process
directory    all logs of a broker, across its log dirs
log          one partition: append, read, load, retain
producers    sequences and transactions of the producers of one log
segment      one run of a log: its batches and its indexes
disk         file names, checkpoints, and the health of a disk
config       the configs of topics and logs

Every room may use `errors`. The package never awaits, reads a clock or opens a socket: time is a
parameter, `now_ms`.
"""
