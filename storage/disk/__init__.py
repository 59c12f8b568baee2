"""Composition of what all files share: names, atomic replacement, deferred removal, health.

It owns the state of a disk: working, full or failed, and the space that is kept in reserve.
"""
