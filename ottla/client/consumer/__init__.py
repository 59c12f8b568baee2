"""The consumer: fetches ahead, hands over records, and tracks positions.

Its modules use `group`, never the other way round.
"""
