"""`ottla version`: prints the installed version (composition)."""

from ottla.cli.failure import guarded
from ottla.cli.options import Json
from ottla.cli.terminal import print_json, print_line


@guarded
def version(json: Json = False) -> None:
    """Print the versions of Ottla and Python.

    \b
    Example:
      ottla version --json
    """
    import importlib.metadata
    import platform

    try:
        own = importlib.metadata.version("ottla")
    except importlib.metadata.PackageNotFoundError:
        own = "from source"
    versions = {
        "ottla": own,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
    }
    if json:
        print_json(dict(versions))
    else:
        print_line(
            f"ottla {versions['ottla']}, {platform.python_implementation()} {versions['python']}"
        )
