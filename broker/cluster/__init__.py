"""This broker as a cluster member: coordinator, controller, metadata, topics."""
