"""Search and live tail of records."""
