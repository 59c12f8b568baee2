"""The coordinator's state and the semantics of its requests (decisions).

`service` handles a request: `writes` validates it and returns a transaction of `txns`, `tree`
applies it, `watches` returns the events. `reads`, `acl` and `sessions` complete it.
"""
