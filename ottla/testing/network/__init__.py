"""A network between brokers, their coordinator and clients, whose links can be cut and slowed."""
