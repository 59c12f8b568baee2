#!/bin/sh
# Make the virtual environment in $1 and install Ottla into it with everything that the other
# make targets need. Needs nothing but a Python with its venv module, and a package index.
set -eu

venv=$1
minimum="3.11"

is_usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3; do
        if is_usable "$candidate"; then
            echo "$candidate"
            return
        fi
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

build_requirements() {
    "$venv/bin/python" - <<'PYTHON'
import pathlib
import tomllib

project = tomllib.loads(pathlib.Path("pyproject.toml").read_text(encoding="utf-8"))
print("\n".join(project["build-system"]["requires"]))
PYTHON
}

# Only the audits need it: without Java everything else works, and their tests are skipped.
install_java() {
    if command -v java >/dev/null 2>&1; then
        return
    fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing openjdk-17-jre-headless, which the Spark audits need."
        apt-get install -y -q openjdk-17-jre-headless >/dev/null 2>&1 && return
    fi
    echo "make: Java was not found, so audits will not run; install it (Debian: apt install openjdk-17-jre-headless)." >&2
}

if ! is_usable "$venv/bin/python"; then
    python=$(find_python)
    require_venv_module "$python"
    echo "Making $venv with $("$python" --version); this takes about a minute the first time."
    "$python" -m venv --clear "$venv"
fi

install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint constraints.txt "$@"
}

# The build's own needs come from the same list of versions, hence no isolated build.
build_requirements >"$venv/build-requirements.txt"
install --requirement "$venv/build-requirements.txt"
install --no-build-isolation --editable ".[dev,analytics]"
install_java
