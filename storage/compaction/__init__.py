"""Log compaction, which keeps the last record of every key (composition).

cleanable         the cleanable range of a log, and the choice of the next log
cleaning_state    idle, in progress, aborted, paused
grouping          the choice of segments that are merged into one
transactions      open transactions, and their removable records and markers
batch_filter      the records of one batch that are kept
job               messages between the broker and the cleaner
batch_source, cleaner, worker     the child process that cleans
manager           the state of all cleanings in the broker's process

The cleaner writes `.cleaned` files and touches nothing else. Only the thread that owns a log swaps
them with the segments that they replace (storage/log/segment_swap.py). A cleaner can therefore be
killed at any moment.
"""
