"""Copies of partitions: leading, following, and what controllers order."""
