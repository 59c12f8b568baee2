"""The messages of Kafka's protocol, one file per family; fields are in the order of the wire.

Names, types and versions come from the JSON files of Kafka 3.9 (clients/src/main/resources/
common/message), in Python's spelling. `kafkawire.declaration` documents the arguments of `field`. A
`@struct` is a part of the messages in its file and needs no further documentation than its fields.
"""
