"""What a broker answers: a file per family of APIs; `broker.handler_table` puts them together."""
