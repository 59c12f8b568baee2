"""A log's producer state: sequences, duplicates, open transactions (composition).

producer_state, producer_entry        all producers of a log, and one of them
producer_snapshot, producer_snapshots the bytes of a snapshot, and its files
producer_replay                       the state rebuilt from snapshots and batches

The state is a function of the batches. Snapshots on disk only limit how many of them a start reads.
"""
