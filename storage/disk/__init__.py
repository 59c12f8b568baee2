"""Composition of what all files share: names, atomic replacement, deferred removal, health.

layout              names of files and directories
checkpoint          syncs, and small files that are replaced atomically
deleted_files       obsolete files that wait for removal
directory_health    the state of a log dir: working, full or offline
space_reserve       space that is released when the disk is full
"""
