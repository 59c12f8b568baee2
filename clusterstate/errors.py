"""The exception of this package (decision)."""


class MalformedZnodeError(Exception):
    """A znode holds data that Kafka never writes; the message shows the value."""
