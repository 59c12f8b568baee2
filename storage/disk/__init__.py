"""Parts of all files: names, atomic replacement, deferred removal, health (composition).

layout              names of files and directories
checkpoint          syncs, and small files that are replaced atomically
deleted_files       obsolete files that wait for removal
directory_health    the state of a log dir: working, full or offline
space_reserve       space that is released when the disk is full
"""
