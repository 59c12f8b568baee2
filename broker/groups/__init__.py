"""Consumer groups: the state machine, its records, and the coordinator."""
