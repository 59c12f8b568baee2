"""Group membership of a consumer: joining, assigning partitions, and pausing the reader for it."""
