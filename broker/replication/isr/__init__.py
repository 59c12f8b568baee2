"""The in-sync set of a partition: its states, lagging followers, proposals and their recorders."""
