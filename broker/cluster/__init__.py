"""This broker as a member: coordinator, controller, metadata, topics."""
