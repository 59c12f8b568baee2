"""The `ottla` command: `commands` holds a module per command, what they share lies beside it."""
