"""`ottla cluster`: who is there. Composition."""

from typing import TYPE_CHECKING

import typer

from ottla.cli.failure import guarded, run_client
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from ottla.cli.terminal import print_json, print_line, print_table

if TYPE_CHECKING:
    from ottla.client.admin_model import ClusterDescription

app = typer.Typer(no_args_is_help=True, help="Look at the cluster.")


@app.callback()
def cluster() -> None:
    """Keep `describe` a command of its own: with a single one typer would drop its name."""


@app.command()
@guarded
def describe(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, json: Json = False) -> None:
    """Print the brokers and the controller.

    \b
    Example:
      ottla cluster describe --json
    """
    from ottla.client.admin import Admin

    async def work() -> "ClusterDescription":
        async with Admin(bootstrap) as admin:
            return await admin.describe_cluster()

    found = run_client(work())
    brokers = sorted(found.brokers.items())
    if json:
        print_json(
            {
                "cluster_id": found.cluster_id,
                "controller_id": found.controller_id,
                "brokers": [
                    {
                        "id": broker_id,
                        "host": address.host,
                        "port": address.port,
                        "rack": found.racks.get(broker_id),
                    }
                    for broker_id, address in brokers
                ],
            }
        )
        return
    print_line(f"cluster {found.cluster_id}")
    rows = [
        (
            broker_id,
            str(address),
            found.racks.get(broker_id) or "-",
            "controller" if broker_id == found.controller_id else "",
        )
        for broker_id, address in brokers
    ]
    print_table(("broker", "address", "rack", "role"), rows)
