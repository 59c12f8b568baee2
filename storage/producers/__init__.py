"""Composition of a log's producer state: sequences, duplicates, open transactions.

The state is a function of the batches. Snapshots on disk only limit how many of them a start reads.
"""
