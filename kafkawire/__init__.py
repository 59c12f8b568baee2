"""Kafka's wire protocol and record format. Pure: bytes in, values out; no I/O, clock or randomness.

    frames_scanner bytes of a connection -> frames
    headers        frame <-> header and message; whole frames, also in uncopied parts
    apis           the table: API keys, what can be read of each, what is served
    schema         encode and decode any declared message; what a declaration is made of
    messages/      the declarations, one file per family of APIs
    errors         Kafka's error codes, and the exceptions of this package
    ids            topics, partitions, offsets, epochs

    records        the record batch: header, checksum, validation, records
    compression    the codecs of a batch

How a message gets onto the wire: `declaration` keeps what a class in `messages/` says; `reader` and
`writer` compile it (on `source`), once per version, into straight-line functions that call
`primitives` off their fast path; `schema` keeps those, and asks `misfit` which field was wrong when
one fails. Importing this package, or `apis`, imports no message.
"""
