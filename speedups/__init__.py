"""The processes of daemons: their compiled modules, and what both daemons need of the system.

`modules` lists them and computes the state of their sources; `setup.py` compiles them. `finder`
lets a process import the binaries. Only a process that calls `finder.enable` does; all others, such
as tests that count lines, import the sources (docs/adr/0043-hot-modules-are-compiled.md).
"""
