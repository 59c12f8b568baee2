"""The commands, one file per group. Composition: each imports its implementation when it runs."""
