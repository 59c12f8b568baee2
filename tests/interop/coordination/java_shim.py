"""Replaces `java`, so that kazoo's own harness starts and stops our coordinator unchanged.

kazoo runs `java -cp ... QuorumPeerMain zoo.cfg`. A script named `java`, first on the PATH, calls
this module with those arguments. It translates the file and executes the coordinator.
"""

import os
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    config = read_config(Path(arguments[-1]))
    tick_ms = int(config.get("tickTime", "2000"))
    command = [
        os.environ["COORDINATOR_PYTHON"],
        "-m",
        "coordination",
        f"--listen=127.0.0.1:{config['clientPort']}",
        f"--data-dir={config['dataDir']}/coordinator",
        f"--min-session-timeout={2 * tick_ms}",
        f"--max-session-timeout={20 * tick_ms}",
        f"--four-letter-words={config.get('4lw.commands.whitelist', 'srvr')}",
        f"--max-connections-per-address={config.get('maxClientCnxns', '60')}",
        *super_digest(arguments),
        *login_config(arguments),
        *tls(config),
    ]
    os.chdir(os.environ["COORDINATOR_ROOT"])
    os.environ.pop("PYTHONPATH", None)
    os.execv(command[0], command)


def read_config(path: Path) -> dict[str, str]:
    lines = [line.partition("=") for line in path.read_text().splitlines() if "=" in line]
    return {key.strip(): value.strip() for key, _, value in lines}


def super_digest(arguments: list[str]) -> list[str]:
    name = "zookeeper.DigestAuthenticationProvider.superDigest"
    return [f"--super-digest={each}" for each in properties(arguments, name)]


def login_config(arguments: list[str]) -> list[str]:
    """Return the option for the users of SASL; kazoo writes an empty file without any."""
    found = properties(arguments, "java.security.auth.login.config")
    return [f"--login-config={each}" for each in found if Path(each).stat().st_size]


def properties(arguments: list[str], name: str) -> list[str]:
    prefix = f"-D{name}="
    return [each.removeprefix(prefix) for each in arguments if each.startswith(prefix)]


def tls(config: dict[str, str]) -> list[str]:
    """Return the TLS options; kazoo has Java key stores, our coordinator needs PEM files."""
    if "secureClientPort" not in config:
        return []
    import base64

    import jks  # type: ignore[import-untyped,import-not-found,unused-ignore]

    directory = Path(config["ssl.keyStore.location"]).parent
    keys = jks.KeyStore.load(config["ssl.keyStore.location"], config["ssl.keyStore.password"])
    trusted = jks.KeyStore.load(
        config["ssl.trustStore.location"], config["ssl.trustStore.password"]
    )
    entry = next(iter(keys.private_keys.values()))
    files = {
        "key": [("RSA PRIVATE KEY", entry.pkey)],
        "cert": [("CERTIFICATE", der) for _, der in entry.cert_chain],
        "ca": [("CERTIFICATE", each.cert) for each in trusted.certs.values()],
    }
    options = [f"--tls-listen=127.0.0.1:{config['secureClientPort']}"]
    for name, blocks in files.items():
        path = directory / f"{name}.pem"
        path.write_text(
            "".join(
                f"-----BEGIN {kind}-----\n{base64.encodebytes(der).decode()}-----END {kind}-----\n"
                for kind, der in blocks
            )
        )
        options.append(f"--tls-{name}={path}")
    return options


if __name__ == "__main__":
    main(sys.argv[1:])
