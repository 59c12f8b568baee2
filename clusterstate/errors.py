"""The exceptions of this package (decision)."""


class MalformedZnodeError(Exception):
    """A znode holds data that Kafka never writes; the message shows the value."""


class RegistrationError(Exception):
    """The coordinator does not register a broker; the message is a remedy."""


class LostNodesError(RegistrationError):
    """The coordinator has none of the nodes that brokers never delete."""
