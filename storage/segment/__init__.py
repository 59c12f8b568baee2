"""Composition of one segment: the log file, its three indexes, and lookups in them.

A segment owns its files. An index only speeds up a search: a lost or damaged one is rebuilt from
the batches.
"""
