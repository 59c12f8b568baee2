"""State kept in an internal topic: leading its partitions, loading them, writing to them."""
