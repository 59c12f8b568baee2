#!/bin/sh
# Make the virtual environment in $1 and install Ottla into it with everything that the other
# make targets need. Needs nothing but a Python with its venv module, and a package index.
set -eu

venv=$1
minimum="3.11"

is_usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Built with a profile, by its configuration or as distributions do it, and able to compile for: it
# needs a third less time for the same work.
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
            # The distribution's may stand behind another one of the same name.
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

# Write down what pyproject.toml requires to build, to run, or for the extra $1.
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

# Not compiled: most of these modules are never imported, and Python compiles the others by itself.
install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
        --constraint constraints.txt "$@"
}

for purpose in build run dev analytics; do
    list_requirements $purpose
done
# The build's own needs come from the same list of versions, hence no isolated build.
install --requirement "$venv/build-requirements.txt"
# Many small packages take as long as the few large ones and the compiler: side by side.
install --requirement "$venv/run-requirements.txt" --requirement "$venv/dev-requirements.txt" &
small=$!
# PySpark comes as a source archive: built by the setuptools that is there, as pip will soon demand.
install --use-pep517 --no-build-isolation --requirement "$venv/analytics-requirements.txt"
install --no-build-isolation --no-deps --editable .
wait $small
install_java
