"""Guards of the APIs: each checks the rights of a sender before the handler runs."""
