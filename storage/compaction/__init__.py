"""Composition: keeping the last record of every key, and little else.

cleanable         what may be cleaned, and which log first
cleaning_state    idle, in progress, aborted, paused
grouping          which segments become one
transactions      which of them are open, and what of them may go
batch_filter      what stays of one batch
job               what the broker tells the cleaner, and hears back
batch_source, cleaned_segment, cleaner, throttle, worker      the child process that does it
manager           what the broker's process knows about all this

The cleaner writes `.cleaned` files and touches nothing else. Only the thread that owns a log puts
them in the place of the segments that they replace (storage/segment_swap.py). So a cleaning can be
killed at any moment.
"""
