"""Offline checks and dumps of the files of a log directory, of Ottla or of Kafka.

`logcheck.local_file` reads the files, `dump` and `verify` pass them to the checks of `logcheck`.
"""
