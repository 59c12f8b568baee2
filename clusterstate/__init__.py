"""The cluster's state in the coordinator: znodes, and the plans that read and write them.

Brokers and the controller share it. `znodes` knows paths and the bytes at them, the modules beside
it hold the plans of one subject each, `plans` declares their effects, and `coordinator_edge`
performs them over a session. Source: kafka.zk of Kafka 3.9.
"""
