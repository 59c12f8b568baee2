"""Importing this lets the process import the compiled modules, where they were built. Edge."""

from speedups.finder import enable

enable()
