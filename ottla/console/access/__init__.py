"""Access to the console: addresses, tokens and origins of requests."""
