"""Grants the user `client` its rights in a secured cluster, once (edge).

An operator may take some of them away later, so they are not granted again at each start. The file
`granted` names the cluster, because a new one in the same directory has no entries.
"""

from collections.abc import Sequence

from ottla.cli.up.private_file import write_private
from ottla.cli.up.secured import ADMIN, Security, client_rights
from ottla.client.admin.admin import Admin


async def grant_once(security: Security, addresses: Sequence[str]) -> None:
    """Add the access control entries of `client`, unless this cluster has got them already.

    Raises:
        OttlaError: the cluster refuses, or cannot be reached.
        OSError: the file cannot be used.
    """
    async with Admin(addresses, client_id="ottla-up", **security.login(ADMIN)) as admin:
        cluster_id = f"{(await admin.describe_cluster()).cluster_id}\n"
        granted = security.files.granted
        if granted.exists() and granted.read_text(encoding="utf-8") == cluster_id:
            return
        await admin.create_acls(client_rights())
        write_private(granted, cluster_id.encode())
