"""Clients coordinated through znodes, as Jafka's and Kafka's old consumers (composition).

Its members share groups with consumers of Kafka 0.8 to 1.1, and with Jafka's. `ottla.client` knows
nothing of it.
"""
