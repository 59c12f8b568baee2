"""The commands, one file per group (composition)."""
