"""Text and bytes of credentials: certificates, PEM, login modules.

Servers, clients and the command share it. It opens no connection, and only `tls_store` opens files.
"""
