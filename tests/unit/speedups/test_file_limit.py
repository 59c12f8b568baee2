"""The limit of open files of a daemon."""

import resource

from speedups.file_limit import raise_file_limit


def test_the_limit_of_open_files_becomes_the_highest_that_is_allowed() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1] - 1, limits[1]))
    try:
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (limits[1], limits[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
