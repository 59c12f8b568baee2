"""One broker: serves requests, leads and follows partitions, coordinates groups.

`node` composes the broker and starts and stops its parts in order. Each concern has a folder:
`network`, `security`, `handlers`, `replication`, `cluster`, `groups`, `logs`, `quotas`,
`config`, `live_configs`, `status`.
"""
