#!/bin/sh
# Create the virtual environment in $1 and install Ottla and the dependencies of all make targets.
# Needs only a Python with its venv module, and a package index.
set -eu

venv=$1
minimum="3.11"

is_usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# A fast Python has headers for compiling and was built with profile-guided optimization, according
# to its configuration or as part of a distribution. It needs a third less time for the same work.
is_fast() {
    is_usable "$1" && "$1" - <<'PYTHON' >/dev/null 2>&1
import ensurepip, pathlib, sys, sysconfig, venv

has_profile = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
has_headers = pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()
sys.exit(not (has_headers and (has_profile or sys.base_prefix == "/usr")))
PYTHON
}

find_python() {
    if [ -n "${PYTHON:-}" ] && is_usable "$PYTHON"; then
        echo "$PYTHON"
        return
    fi
    names="python3.13 python3.12 python3.11 python3"
    for check in is_fast is_usable; do
        for name in $names; do
            # Another Python of the same name may precede the distribution's in PATH.
            for candidate in "$name" "/usr/bin/$name"; do
                if $check "$candidate"; then
                    echo "$candidate"
                    return
                fi
            done
        done
    done
    echo "make: no Python $minimum or newer was found; install it (Debian, Ubuntu: apt install python3 python3-venv) or name it with PYTHON=/path/to/python3." >&2
    exit 1
}

require_venv_module() {
    if ! "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        version=$("$1" -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
        echo "make: Python $version lacks its venv module; install it (Debian, Ubuntu: apt install python$version-venv)." >&2
        exit 1
    fi
}

# Write the requirements of $1 in pyproject.toml to a file: "build", "run", or the name of an extra.
list_requirements() {
    "$venv/bin/python" - "$@" >"$venv/$1-requirements.txt" <<'PYTHON'
import pathlib
import sys
import tomllib

settings = tomllib.loads(pathlib.Path("pyproject.toml").read_text(encoding="utf-8"))
project = settings["project"]
lists = {
    "build": settings["build-system"]["requires"],
    "run": project["dependencies"],
    **project["optional-dependencies"],
}
print("\n".join(lists[sys.argv[1]]))
PYTHON
}

# Only the audits need Java. Without it their tests are skipped, and everything else works.
install_java() {
    if command -v java >/dev/null 2>&1; then
        return
    fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing openjdk-17-jre-headless, which the Spark audits need."
        apt-get install -y -q openjdk-17-jre-headless >/dev/null 2>&1 && return
    fi
    echo "make: Java was not found, so the audits cannot run; install it (Debian: apt install openjdk-17-jre-headless)." >&2
}

# Two at once, as in two terminals, would write to the same environment. Jobs hold the lock, too.
if command -v flock >/dev/null 2>&1; then
    exec 9<"$0"
    taken=0
    flock -n 9 2>/dev/null || taken=$?
    # Any other code is no conflict: on NFS, a file that is open for reading takes no exclusive lock.
    # Then no one waits, as without flock.
    if [ "$taken" = 1 ]; then
        echo "Waiting for another make in this directory."
        flock 9 || true
    fi
fi

has_pip() {
    "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

# The venv module installs pip before it writes bin/activate. An environment that has only the latter is
# that of another tool, such as uv. It may hold packages of the user, so it gets pip.
if [ -e "$venv/bin/activate" ] && is_usable "$venv/bin/python" && ! has_pip; then
    "$venv/bin/python" -m ensurepip >/dev/null 2>&1 || true
fi
# An interrupt may have left an environment without pip.
if ! is_usable "$venv/bin/python" || ! has_pip; then
    python=$(find_python)
    require_venv_module "$python"
    echo "Creating $venv with $("$python" --version); this takes about a minute the first time."
    "$python" -m venv --clear "$venv"
fi

# Becomes pip, so that the process id of a job is pip's. Skips bytecode compilation: most modules are
# never imported, and Python compiles the rest itself.
install() {
    exec "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
        --constraint constraints.txt "$@"
}

# A job ignores Ctrl-C. It would write to the environment further, also beside the next attempt.
jobs=""
end_jobs() {
    # One process id per word.
    [ -z "$jobs" ] || kill $jobs 2>/dev/null || true
    wait
}
trap end_jobs EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

for purpose in build run dev analytics; do
    list_requirements $purpose
done
# No isolated build, so that the build requirements obey the same constraints.
(install --requirement "$venv/build-requirements.txt")
# The packages are fetched while the compiler works: the many small ones, and PySpark, which is a source
# archive. The installed setuptools builds it through PEP 517, which pip is going to require; compressing
# its wheel would take most of the time.
install --requirement "$venv/run-requirements.txt" --requirement "$venv/dev-requirements.txt" &
small=$!
jobs="$small"
install --use-pep517 --no-build-isolation --config-settings=--build-option=--compression=stored \
    --requirement "$venv/analytics-requirements.txt" &
spark=$!
jobs="$small $spark"
(install --no-build-isolation --no-deps --editable .)
wait $small
wait $spark
jobs=""
install_java
