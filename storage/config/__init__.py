"""Configs (composition).

config_key      a key with its type, default and rule
topic_config    the table of topic keys
log_config      `LogConfig`, the typed form for one log
"""
