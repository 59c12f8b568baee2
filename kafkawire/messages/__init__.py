"""The messages of Kafka's protocol, a file per family; fields stand in the order of the wire.

Names, types and versions are those of the JSON files of Kafka 3.9 (clients/src/main/resources/
common/message) in Python's spelling; `kafkawire.declaration` says what `field` takes. A `@struct`
is a part of the messages of its file, and its fields say all that there is to say.
"""
