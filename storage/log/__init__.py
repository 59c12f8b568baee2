"""One partition's log: segments, leader epochs, loading, retention, replication (composition).

log                          the door: append, read, truncate; log.upkeep is in log_upkeep
local_log, segment_list      the segments as one sequence of offsets
leader_epochs                the history of leaderships; epoch_checkpoint stores it
loading > recovery, leftover, segment_split     from a directory to a log that can be served
segment_swap                 replacement of segments by a cleaned one
time_search                  the offset of a timestamp
retention, retention_deletion     the segments to delete, and their deletion
replicated, log_copying      batches from a leader, and from another log dir
partition_metadata           the topic id

The room owns the directory of a partition. One thread owns a log.
"""
