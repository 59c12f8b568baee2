"""Benchmarks: `micro/` times one function, `loads/` times whole processes.

Machines differ and drift. Every load therefore prints our figure beside a reference from the same
run, and their ratio. `python -m benchmarks` runs all loads and writes the results.
"""
