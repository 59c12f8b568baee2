"""Kafka's wire protocol and record format. Pure: bytes in, values out; no I/O, clock or randomness.

    native         the functions of the hot path, compiled or plain
    exchange       the client side of a connection: requests and their responses
    headers        frame <-> header and message; whole frames, also in uncopied parts
    apis           the table of API keys: decodable and advertised versions of each
    schema         encode and decode any declared message; the parts of a declaration
    messages/      the declarations, one file per family of APIs
    errors         Kafka's error codes, and the exceptions of this package
    ids            topics, partitions, offsets, epochs

    records        the record batch: header, checksum, validation, records
    compression    the codecs of a batch

A message gets onto the wire as follows. `declaration` stores the fields of each class in
`messages/`. `reader` and `writer` compile them (with `source`), once per version, into
straight-line functions that call `primitives` off their fast path. `schema` caches these functions,
and calls `misfit` to name the wrong field when a writer fails. Importing this package, or `apis`,
imports no message.
"""
