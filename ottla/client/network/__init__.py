"""Connections to the brokers of a cluster, and the requests that several parts of the client send.

Depends only on the modules beside this package.
"""
