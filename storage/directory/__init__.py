"""A broker's logs, over all its log dirs (composition).

logs                         the door: open, create, delete and truncate logs
log_table                    the logs that are served, each with its log dir
log_checkpoints              recovery points, log starts, high watermarks, cleaner offsets
log_placement, future_logs   the choice of a log dir, and moves between log dirs
log_directory                one log dir: lock, identity, clean shutdown, space
directory_checkpoints        its checkpoints on disk
partition_directories        its partitions' directories, by name and state
opening, load_progress       parallel opening, and reports about it
directory_lock, meta_properties, clean_shutdown, boot_id     its small files

The room owns the files of a log dir beside the partitions, and the rule that a partition has one
log on a broker.
"""
