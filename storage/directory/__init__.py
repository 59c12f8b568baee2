"""Composition of a broker's logs: `logs` is the door, `log_directory` is one log dir.

It owns the files of a log dir beside the partitions, and the rule that a partition has one log.
"""
