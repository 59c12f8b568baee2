"""The process from which the daemons of `ottla.testing` are forked."""
