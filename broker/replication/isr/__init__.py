"""The in-sync set of a partition: membership, states, proposals and their recorders."""
