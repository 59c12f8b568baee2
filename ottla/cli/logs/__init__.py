"""Offline checks and dumps of the files of a log directory, of Ottla or of Kafka.

`file_source` reads the files, `dump` and `verify` pass them to the checks of `logcheck`.
"""
