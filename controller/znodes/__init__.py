"""Kafka's znodes: their paths, and their bytes as values (decision).

A file per family of nodes. What is written is byte for byte what Kafka writes, in its order of
keys; what is read may be in any version that Kafka ever wrote, with keys in any order.

Source: kafka.zk.ZkData of Kafka 3.9.
"""
