"""Composition of one partition's log: segments, leader epochs, loading, retention, replication.

`log` is the door. It owns the directory of the partition, and one thread owns the log.
"""
