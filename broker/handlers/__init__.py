"""The request handlers, with a file per family of APIs; `handler_table` lists them."""
