"""Importing this lets the process import the compiled modules, where they were built. Edge."""

import os

from speedups.finder import enable

if not enable() and os.environ.get("OTTLA_TEST_COMPILED"):
    raise RuntimeError("there are no compiled modules of these sources: make compile")
