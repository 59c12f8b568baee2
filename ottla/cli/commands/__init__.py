"""The commands, one file per group. Composition: what a command starts, it imports itself."""
