"""Transactions: the state machine, its records, the markers, and the coordinator."""
