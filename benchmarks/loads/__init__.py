"""Whole-process loads: a server in its own process, and a load generator beside it."""
