"""`ottla profiles`: lists the named clusters of the profiles file (composition)."""

import typer

from ottla.cli.failure import guarded
from ottla.cli.options import Json
from ottla.cli.terminal import print_json, print_table

app = typer.Typer(no_args_is_help=True, help="List the named clusters of your profiles file.")


@app.callback()
def profiles() -> None:
    """Profiles are tables in ~/.config/ottla/profiles.toml, or the file OTTLA_PROFILES."""


@app.command("list")
@guarded
def list_profiles(json: Json = False) -> None:
    """Print the profiles with their brokers, and which one is the default.

    \b
    Example:
      ottla profiles list
    """
    from ottla.cli.command_config import BOOTSTRAP
    from ottla.cli.profile import load_profiles

    found = load_profiles()
    brokers = {name: each.get(BOOTSTRAP, "") for name, each in sorted(found.by_name.items())}
    if json:
        print_json(
            [
                {"profile": name, "bootstrap": text, "is_default": name == found.default}
                for name, text in brokers.items()
            ]
        )
        return
    rows = [
        (name, text or "-", "default" if name == found.default else "")
        for name, text in brokers.items()
    ]
    print_table(("profile", "bootstrap", ""), rows)
