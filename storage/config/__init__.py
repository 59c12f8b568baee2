"""Composition of configs: a key with its type and rule, the topic keys, and a log's config."""
