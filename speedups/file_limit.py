"""The limit of open files of this process (edge)."""

import resource


def raise_file_limit() -> None:
    """Raise the limit of open files to its maximum: files and connections may be thousands."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
