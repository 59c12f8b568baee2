"""Whole-process loads: a server in a process of its own, a generator beside it."""
