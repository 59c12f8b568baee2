"""Benchmarks: `micro/` times one function, `loads/` times whole processes.

Every load prints our figure beside a reference measured in the same run, as a ratio, because
machines differ and drift. `python -m benchmarks` runs them all and writes the results.
"""
