"""Offline checks of a log's files: names of files, kinds of damage, and checks without I/O.

`ottla logs` runs them in its own process, `analytics` in the tasks of Spark. Callers read the
files, local ones with `local_file`, and pass their bytes. Every violation is a `finding.Finding`,
whose kind is a `finding.Damage`.
"""
