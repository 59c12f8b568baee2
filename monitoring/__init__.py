"""Metrics as text and status pages over HTTP, for the daemons."""
