"""Follows the configs in the coordinator: of topics, of brokers, and the quotas of clients."""
