"""What a daemon may run as compiled code: which modules, and when they are taken.

`modules` names them and tells the state of their sources; `setup.py` compiles them by it. `finder`
lets a process import what was compiled. Nobody else knows: whatever does not call `finder.enable`
imports the sources, as tests do that count lines (docs/adr/0043-hot-modules-are-compiled.md).
"""
