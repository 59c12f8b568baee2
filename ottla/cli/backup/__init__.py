"""Backups of log directories, and their restoration."""
