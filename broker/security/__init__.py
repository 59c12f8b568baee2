"""Principals of connections, and the access control that decides over their requests."""
