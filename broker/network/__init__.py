"""From sockets to handlers and back: acceptor, processor, request channel, router."""
