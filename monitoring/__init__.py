"""Metrics as text, status pages over HTTP, and limits of the log, for the daemons."""
