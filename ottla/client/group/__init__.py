"""A consumer as member of a group: joining, sharing out partitions, committing offsets."""
