"""One broker: takes requests, leads and follows partitions, coordinates groups.

`node` composes it and starts and stops its parts in order; a folder per concern holds them:
`network`, `handlers`, `replication`, `cluster`, `groups`, `logs`, `quotas`, `config_keys`.
"""
