"""Paths and codecs of Kafka's znodes (decision).

One module per family of znodes. The encoders write byte for byte what Kafka writes, with keys in
its order. The decoders accept every version that Kafka ever wrote, with keys in any order.

Source: kafka.zk.ZkData of Kafka 3.9.
"""
