"""Replicas: leading, following, and the requests of controllers."""
