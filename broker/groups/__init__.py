"""Groups of consumers: the state machine, its records, and who runs it."""
