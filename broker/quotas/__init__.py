"""Quotas of clients, and the throttling that enforces them."""
