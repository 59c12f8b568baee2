"""The request handlers, with a file per family of APIs; `broker.handler_table` assembles them."""
