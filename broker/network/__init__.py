"""The path between sockets and handlers: acceptor, processor, request channel, router."""
