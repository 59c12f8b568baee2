"""The exceptions of this package (decision)."""


class MalformedZnodeError(Exception):
    """A znode holds data that Kafka never writes; the message shows the value."""


class LostNodesError(Exception):
    """The coordinator has none of the nodes that brokers never delete; the message is a remedy."""
