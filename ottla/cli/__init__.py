"""The `ottla` command. `commands` holds one module per command, with shared modules beside it."""
