"""Group membership of a consumer: joining, assigning partitions, committing offsets."""
