"""ZooKeeper's wire format, shared by server and client (decisions).

`jute` encodes records, `messages` declares them, `frames` splits and builds packets, `multi`
encodes the bodies of multi requests, `node_path` validates paths.
"""
